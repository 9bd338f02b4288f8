/* quantize/pack.h - a file of tensors is compressed in place: see model/packed.h for what it becomes. */
#ifndef QUANTIZE_PACK_H
#define QUANTIZE_PACK_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The packed form in memory from malloc; false in *out_smaller: it would not be smaller, and nothing is made.
 * INLAY_NOT_FOUND: there is no libzstd. Bytes of elements are parted where that makes a chunk smaller. */
INLAY_NODISCARD inlay_status pack_bytes(const uint8_t *raw, size_t bytes, uint32_t chunk_bytes, uint8_t **out,
                                        size_t *out_bytes, bool *out_smaller, inlay_diag *diag);
/* The file at path, which stays as it is where it would not be smaller. */
INLAY_NODISCARD inlay_status pack_file(const char *path, inlay_diag *diag);
#endif
