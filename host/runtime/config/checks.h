/* config/checks.h - rules for the values of certain options, in addition to their kind. */
#ifndef CONFIG_CHECKS_H
#define CONFIG_CHECKS_H
#include "inlay/inlay.h"
#include <stdbool.h>

/* Checks a value (of a list: an item) of that option, which is valid for its kind. INLAY_INVALID_ARGUMENT: diag has
 * the reason. */
inlay_status option_check(uint32_t option, const char *text, inlay_diag *diag);

/* Parses a power in watts: a decimal number above 0. */
bool option_watts(const char *text, double *out_watts);
/* Parses a share from 0 to 1: "0.01", or "1%". */
bool option_share(const char *text, double *out_share);
/* Parses a limit of an error: a number of at least 0, such as "0.01" or "1e-2". */
bool option_limit(const char *text, double *out_limit);
/* Parses a number of bytes: "64M" or "64MiB"; K, M and G are 2^10, 2^20 and 2^30. At least 1. */
bool option_bytes(const char *text, uint64_t *out_bytes);
#endif
