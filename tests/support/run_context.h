/* run_context.h - a run that a test expects to succeed. */
#ifndef RUN_CONTEXT_H
#define RUN_CONTEXT_H
#include "cmocka_all.h"
#include "inlay/inlay.h"

static inline void run_context(inlay_context *context)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (inlay_context_run(context, NULL, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
}
#endif
