#include "cli/measured.h"
#include "cli/inputs.h"
#include "base/strbuf.h"
#include "timing/timing.h"
#include <stdlib.h>

inlay_status measured_runs(const struct feed *given, double seconds, const cli_common *common, inlay_session *session,
                           inlay_context *context, inlay_diag *diag)
{
    const inlay_run_options options = { .struct_size = sizeof options, .cancel = cli_cancel() };
    const timing_plan plan = {
        .seconds = seconds, .least = 3, .most = SIZE_MAX, .progress = cli_progress, .what = "measuring"
    };
    struct feed own = *given; /* shares the flags; results of feed_make() stay local */
    inlay_value **inputs = NULL;
    run_times times = { 0 };
    inlay_status status;

    own.trial = true;
    own.made = NULL;
    INLAY_TRY(feed_make(&own, cli_caller(common), session, &inputs, diag));
    if (!common->quiet && !feed_has_costed_sizes(inputs, session))
        (void)fprintf(stderr,
                      "%s: the predicted costs are for other sizes than those of the inputs; --dim NAME=N makes them "
                      "equal\n",
                      common->verb);
    INLAY_TRY(feed_bind(inputs, session, context, diag));
    INLAY_TRY(inlay_context_run(context, &options, diag)); /* creates the plan and touches memory for the first time */
    INLAY_TRY(inlay_context_measure(context, 1, diag));
    status = timing_context(&plan, context, &options, &times, diag);
done:
    cli_progress_clear();
    free(times.ms);
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
    struct strbuf text = { 0 };
    inlay_status status = inlay_session_explain(session, &options, strbuf_write, &text, diag);

    *out_json = status == INLAY_OK && !text.failed ? json_loadb(text.data, text.size, 0, NULL) : NULL;
    strbuf_deinit(&text);
    if (status == INLAY_OK && *out_json == NULL)
        status = no_memory(diag, "for the explanation");
    return status;
}
