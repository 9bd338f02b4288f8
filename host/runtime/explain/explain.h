/* explain/explain.h - who runs what, and why: the words of inlay_session_explain(). */
#ifndef EXPLAIN_EXPLAIN_H
#define EXPLAIN_EXPLAIN_H
#include "exec/loop/watch.h"
#include "session/session.h"

/* options: complete (the caller's shorter struct filled up with zeros). timings: figures of measured runs,
 * and runner their runner, or both NULL. */
INLAY_NODISCARD inlay_status explain_session(const inlay_session *session, const inlay_explain_options *options,
                                             const struct timings *timings, const struct runner *runner,
                                             inlay_write_fn write, void *user, inlay_diag *diag);
#endif
