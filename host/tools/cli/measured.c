#include "cli/measured.h"
#include "cli/inputs.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include <stdlib.h>

inlay_status measured_runs(const feed *given, double seconds, const cli_common *common, inlay_session *session,
                           inlay_context *context, inlay_diag *diag)
{
    inlay_run_options options = { .struct_size = sizeof options, .cancel = cli_cancel() };
    feed own = *given; /* flags are shared, what is found out is not */
    inlay_value **inputs = NULL;
    double begin, spent = 0;
    inlay_status status;

    own.trial = true;
    own.made = NULL;
    INLAY_TRY(feed_make(&own, cli_caller(common), session, &inputs, diag));
    if (!common->quiet && !feed_is_as_priced(inputs, session))
        (void)fprintf(stderr,
                      "%s: prices are for other sizes than those of the inputs; --assume or --dim NAME=N makes "
                      "them the same\n",
                      common->verb);
    INLAY_TRY(feed_bind(inputs, session, context, diag));
    INLAY_TRY(inlay_context_run(context, &options, diag)); /* plans, and touches memory for the first time */
    INLAY_TRY(inlay_context_measure(context, 1, diag));
    begin = clock_ms();
    for (int runs = 0; runs < 3 || spent < seconds * 1e3; runs++) {
        INLAY_TRY(inlay_context_run(context, &options, diag));
        spent = clock_ms() - begin;
        (void)cli_progress(NULL, seconds > 0 ? spent / (seconds * 1e3) : 1, "measuring");
    }
done:
    cli_progress_clear();
    free(own.made);
    feed_release(inputs, session);
    return status;
}

inlay_status measured_explain(const inlay_session *session, const inlay_context *context, json_t **out_json,
                              inlay_diag *diag)
{
    const inlay_explain_options options = {
        .struct_size = sizeof options, .format = "json", .measured = context, .flags = INLAY_EXPLAIN_ALL
    };
    strbuf text = { 0 };
    inlay_status status = inlay_session_explain_ex(session, &options, strbuf_write, &text, diag);

    *out_json = status == INLAY_OK && !text.failed ? json_loadb(text.data, text.size, 0, NULL) : NULL;
    strbuf_deinit(&text);
    if (status == INLAY_OK && *out_json == NULL)
        status = no_memory(diag, "for the explanation");
    return status;
}
