/* config/checks.h - what the values of certain options must be, beyond what their kind says. */
#ifndef CONFIG_CHECKS_H
#define CONFIG_CHECKS_H
#include "inlay/inlay.h"
#include <stdbool.h>

/* INLAY_OK, or INLAY_INVALID_ARGUMENT with a sentence, for a value (of a list: for an item) of that
 * option, which is right for its kind. */
inlay_status option_check(uint32_t option, const char *text, inlay_diag *diag);

/* Bytes as people write them: "64M" or "64MiB"; K, M and G are 2^10, 2^20 and 2^30. At least 1. */
bool option_bytes(const char *text, uint64_t *out_bytes);
#endif
