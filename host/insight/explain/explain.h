/* explain/explain.h - which provider runs each node, and why: the implementation of inlay_session_explain(). */
#ifndef EXPLAIN_EXPLAIN_H
#define EXPLAIN_EXPLAIN_H
#include "measure/timings.h"
#include "session/session.h"

/* A hint in inlay_explain_options.flags, for the command line: explain_sink.bold. */
enum { EXPLAIN_BOLD = 1u << 16 };

/* options has this host's full size (a caller's shorter struct is extended with zeros). measured and runner: the
 * observer of measured runs (measure/timings.h) and their runner, or both NULL. */
INLAY_NODISCARD inlay_status explain_session(const inlay_session *session, const inlay_explain_options *options,
                                             const run_observer *measured, const struct runner *runner,
                                             inlay_write_fn write, void *user, inlay_diag *diag);
#endif
