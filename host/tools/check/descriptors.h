/* check/descriptors.h - memory that other drivers share through file descriptors. */
#ifndef CHECK_DESCRIPTORS_H
#define CHECK_DESCRIPTORS_H
#include "check/harness.h"

/* Exports and imports memory of each kind that the domain states, in either ownership: the bytes must be the same, and
 * each descriptor must be closed once, by the side that the ownership names. */
void check_descriptors(struct check *check, device_link *link, const inlay_domain_info *domain);
#endif
