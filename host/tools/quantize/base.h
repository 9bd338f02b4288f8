/* quantize/base.h - the model that layers are changed in: optimised as far as every file may be, raised to an opset. */
#ifndef QUANTIZE_BASE_H
#define QUANTIZE_BASE_H
#include "quantize/quantize.h"
#include "session/session.h"

/* A session without a program whose model can be changed and saved. opset: at least; lower is left as it is. Destroy
 * with inlay_session_destroy(). */
INLAY_NODISCARD inlay_status base_open(const quantize_args *args, int64_t opset, inlay_session **out_session,
                                       inlay_diag *diag);
#endif
