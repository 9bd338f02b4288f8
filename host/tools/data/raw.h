/* data/raw.h - files that are used as inputs directly: pictures and audio as bytes, text as lines. */
#ifndef DATA_RAW_H
#define DATA_RAW_H
#include "inlay/inlay.h"
#include <stdbool.h>

/* Whether the source is a file that is used directly: for an input of bytes of rank 1, or of strings, and not .npy,
 * .npz or .pb; or "text:...", which is a string. */
bool raw_is(const char *source, const inlay_io_info *info);
/* Whether the name ends like that of a file for the input: of a text for strings, of a sound for others. */
bool raw_is_file(const char *path, const inlay_io_info *info);
/* uint8[N]: the bytes of the file; strings: its lines, [lines]. */
INLAY_NODISCARD inlay_status raw_load(const char *source, const inlay_io_info *info, inlay_value **out_value,
                                      inlay_diag *diag);
#endif
