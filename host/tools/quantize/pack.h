/* quantize/pack.h - compresses a file of tensors in place; model/packed.h describes the format. */
#ifndef QUANTIZE_PACK_H
#define QUANTIZE_PACK_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Packs bytes into memory from malloc. *out_smaller is false, and nothing is allocated, if the result would not be
 * smaller. INLAY_NOT_FOUND: libzstd is not installed. The bytes of elements are split into planes where that makes a
 * chunk smaller. */
INLAY_NODISCARD inlay_status pack_bytes(const uint8_t *raw, size_t bytes, uint32_t chunk_bytes, uint8_t **out,
                                        size_t *out_bytes, bool *out_smaller, inlay_diag *diag);
/* Packs the file at path; it stays unchanged if it would not become smaller. */
INLAY_NODISCARD inlay_status pack_file(const char *path, inlay_diag *diag);
#endif
