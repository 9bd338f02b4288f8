/* quantize/convert.h - converts a model file to another opset. */
#ifndef QUANTIZE_CONVERT_H
#define QUANTIZE_CONVERT_H
#include "data/scratch.h"
#include <limits.h>

/* Writes the model at path for that opset of ai.onnx into the scratch folder; out is [PATH_MAX]. Functions are inlined
 * and Constant nodes become constants; other optimisations are not applied. INLAY_UNSUPPORTED names a node that the
 * opset cannot express. */
INLAY_NODISCARD inlay_status convert_file(const char *path, const inlay_options *options, int64_t opset,
                                          const struct scratch *scratch, char *out, inlay_diag *diag);
/* The options for the file that convert_file() wrote, without the options that say how the original file is read. The
 * caller destroys them. */
INLAY_NODISCARD inlay_status convert_options(const inlay_options *given, inlay_options **out_options, inlay_diag *diag);
#endif
