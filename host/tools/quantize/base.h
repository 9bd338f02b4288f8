/* quantize/base.h - the base model whose layers are changed: optimised at level 1 and raised to an opset. */
#ifndef QUANTIZE_BASE_H
#define QUANTIZE_BASE_H
#include "quantize/quantize.h"
#include "session/session.h"

/* Opens a session without a program, whose model can be changed and saved. opset is the minimum; a model with a later
 * opset keeps it. Destroy the session with inlay_session_destroy(). */
INLAY_NODISCARD inlay_status base_open(const quantize_args *args, int64_t opset, inlay_session **out_session,
                                       inlay_diag *diag);
#endif
