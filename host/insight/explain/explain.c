#include "explain/explain.h"
#include "explain/internal.h"
#include <string.h>

static inlay_status check_options(const inlay_explain_options *options, const char *format, inlay_diag *diag)
{
    if (strcmp(format, "html") == 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "the library cannot write HTML pages; write the explanation as json, then run `inlay explain "
                          "--from FILE --html PAGE`");
    if (strcmp(format, "text") != 0 && strcmp(format, "json") != 0 && strcmp(format, "line") != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "unknown format of an explanation: '%s'; use text, json or line", format);
    if (strcmp(format, "line") == 0 && (options->flags != 0 || options->node != NULL || options->what_if_count > 0))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the explanation in one line has no flags, nodes or what-ifs; use format text");
    if ((options->flags & 0xffffu &
         ~(uint32_t)(INLAY_EXPLAIN_ALL | INLAY_EXPLAIN_KERNELS | INLAY_EXPLAIN_OBJECTIVES | INLAY_EXPLAIN_SCALING)) !=
        0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_explain_options.flags: %#x has an unknown bit",
                          options->flags);
    if (options->node != NULL && options->what_if_count > 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "a node and a what-if cannot be combined; request one of them");
    return INLAY_OK;
}

inlay_status explain_session(const inlay_session *session, const inlay_explain_options *options,
                             const run_observer *measured, const struct runner *runner, inlay_write_fn write,
                             void *user, inlay_diag *diag)
{
    const char *format = options->format != NULL ? options->format : "text";
    bool json = strcmp(format, "json") == 0, kernels = (options->flags & INLAY_EXPLAIN_KERNELS) != 0;
    enum { USUAL_COLUMNS = 100, MOST_COLUMNS = 400 };
    explain_sink sink = { write, user, .bold = (options->flags & EXPLAIN_BOLD) != 0 };
    explain_view view = { .sink = &sink,
                          .what_ifs = options->what_ifs,
                          .what_if_count = options->what_if_count,
                          .all = (options->flags & INLAY_EXPLAIN_ALL) != 0 };
    facts_outcome *outcome = NULL, **objectives = NULL;
    facts_scale scaling[FACTS_SCALES];
    inlay_status status = INLAY_OK;
    struct facts *facts = NULL;

    sink.columns = options->columns == 0             ? USUAL_COLUMNS
                   : options->columns > MOST_COLUMNS ? MOST_COLUMNS
                                                     : (int)options->columns;
    INLAY_TRY(check_options(options, format, diag));
    INLAY_TRY(facts_create(session, timings_of(measured), runner, &facts, diag));
    if (strcmp(format, "line") == 0) {
        text_line(facts, &sink);
        goto done;
    }
    INLAY_TRY(facts_merge_refusals(facts, diag));
    if (kernels)
        INLAY_TRY(facts_find_kernels(facts, diag));
    if (options->node != NULL) {
        INLAY_TRY(facts_check_pattern(facts, "node", options->node, diag));
        status = json ? json_nodes(facts, options->node, &view, diag) : text_nodes(facts, options->node, &view, diag);
        goto done;
    }
    if (options->what_if_count > 0)
        INLAY_TRY(facts_what_if(facts, options->what_ifs, options->what_if_count, &outcome, diag));
    view.outcome = outcome;
    if ((options->flags & INLAY_EXPLAIN_OBJECTIVES) != 0)
        INLAY_TRY(facts_objectives(facts, &objectives, diag));
    view.objectives = objectives;
    if ((options->flags & INLAY_EXPLAIN_SCALING) != 0) {
        INLAY_TRY(facts_scaling(facts, scaling, diag));
        view.scaling = scaling;
    }
    INLAY_TRY(facts_find_runner_ups(facts, diag));
    INLAY_TRY(facts_find_kept_back(facts, diag));
    if (json)
        json_session(facts, &view);
    else
        text_session(facts, &view);
    if (kernels && !json)
        text_kernels(facts, &view);
done:
    facts_destroy(facts);
    return status;
}
