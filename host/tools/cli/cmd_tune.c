/* inlay tune: measure what the providers offer for one model. */
#include "cli/cli.h"
#include "cli/inputs.h"
#include <stdlib.h>

static const char doc[] =
    "Times the kernels of every plausible offer for MODEL, at the sizes of the inputs, and keeps the results in the "
    "cache folder. Later sessions of this model, or of others with the same layers, use them to choose providers. "
    "Where they lead to another assignment, the model is run both ways, and the faster one stays.\v"
    "Equal layers are timed once. Ctrl-C, or the end of the time, keeps what was measured so far. Sizes that neither "
    "--input nor --dim gives are assumed; see --assume.\n\n"
    "Examples:\n"
    "  inlay tune model.onnx\n"
    "  inlay tune model.onnx --dim batch=8 --budget-s 20\n"
    "  inlay tune model.onnx --inputs data/ --json\n";

enum { SHOWN_CHANGES = 20 };

typedef struct tune_args {
    struct feed feed;
    const char *model;
    inlay_tune_options how;
} tune_args;

/* What is printed of the changes. */
struct changes {
    json_t *list; /* with --json */
    char lines[SHOWN_CHANGES][256];
    uint32_t count;
};

static const cli_option own_options[] = {
    FEED_OPTIONS(tune_args, feed),
    { "runs", "N", "Run each kernel at most N times (default: as its share of the time allows)",
      CLI_NUMBER(tune_args, how.runs, 1, 200) },
    { "budget-s", "S", "Stop after S seconds; the most expensive kernels come first (default: 60)",
      CLI_NUMBER(tune_args, how.budget_s, 0.001, 1e6) },
    CLI_MODEL(tune_args, model),
    { 0 },
};

static void note_change(void *user, const inlay_tune_change *c)
{
    struct changes *x = user;

    if (x->list != NULL)
        (void)json_array_append_new(x->list,
                                    json_pack("{s:s, s:s, s:s, s:s, s:f, s:f}", "node", c->node, "op_type", c->op_type,
                                              "from", c->from, "to", c->to, "from_ns", c->from_ns, "to_ns", c->to_ns));
    if (x->count < SHOWN_CHANGES)
        (void)snprintf(x->lines[x->count], sizeof x->lines[0],
                       "  %-14.40s %-12.40s -> %-12.40s %10.1f -> %.1f us  %.80s", c->op_type, c->from, c->to,
                       c->from_ns * 1e-3, c->to_ns * 1e-3, c->node);
    x->count++;
}

static int print_result(const tune_args *args, const cli_common *common, const inlay_tune_result *r, struct changes *x)
{
    const int code = cli_cancelled() ? CLI_CANCELLED : CLI_OK; /* what was measured until then is kept, and told */

    if (common->json) {
        json_t *list = x->list;
        x->list = NULL;
        return cli_print_json(
            common,
            json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:o}", "model",
                      args->model, "offers", (int)r->offer_count, "kernels", (int)r->kernel_count, "known",
                      (int)r->known_count, "measured", (int)r->measured_count, "failed", (int)r->failed_count, "pruned",
                      (int)r->pruned_count, "stopped", (int)r->stopped, "before_ms", r->before_ns * 1e-6, "measured_ms",
                      r->measured_ns * 1e-6, "after_ms", r->after_ns * 1e-6, "seconds", r->seconds, "run_before_ms",
                      r->run_before_ns * 1e-6, "run_after_ms", r->run_after_ns * 1e-6, "dropped", (int)r->dropped,
                      "changes", list),
            code);
    }
    (void)printf("%u of %u kernels timed in %.1f s (%u had a figure before, %u could not be run); %u offers, %u far "
                 "too dear to try%s\n",
                 r->measured_count, r->kernel_count, r->seconds, r->known_count, r->failed_count, r->offer_count,
                 r->pruned_count, r->stopped ? "; stopped early" : "");
    if (r->measured_count == 0 && r->known_count == 0) {
        (void)printf("expected         %10.3f ms; nothing was measured%s\n", r->before_ns * 1e-6,
                     r->stopped && code == CLI_OK ? ": --budget-s was too short for one kernel" : "");
        return code;
    }
    (void)printf("expected before  %10.3f ms\nas assigned now  %10.3f ms, by what was measured\nbest assignment  "
                 "%10.3f ms, %u node%s change provider\n",
                 r->before_ns * 1e-6, r->measured_ns * 1e-6, r->after_ns * 1e-6, r->changed_count,
                 r->changed_count == 1 ? "" : "s");
    if (r->run_before_ns > 0)
        (void)printf("a run takes     %10.3f ms as assigned now, %.3f ms as the figures have it%s\n",
                     r->run_before_ns * 1e-6, r->run_after_ns * 1e-6, r->dropped ? ": they are not kept" : "");
    for (uint32_t i = 0; i < x->count && i < SHOWN_CHANGES; i++)
        (void)printf("%s\n", x->lines[i]);
    if (x->count > SHOWN_CHANGES)
        (void)printf("  and %u more; --json lists all\n", x->count - SHOWN_CHANGES);
    return code;
}

static inlay_status tune(tune_args *args, cli_common *common, inlay_tune_result *result, struct changes *x,
                         inlay_diag *diag)
{
    inlay_session *session = NULL;
    inlay_value **inputs = NULL;
    inlay_status status;

    INLAY_TRY(cli_open(common, args->model, &session, diag));
    args->feed.trial = true;
    INLAY_TRY(feed_make(&args->feed, cli_caller(common), session, &inputs, diag));
    args->how.inputs = inputs;
    args->how.input_count = inlay_session_input_count(session);
    args->how.progress = cli_progress;
    args->how.change = note_change;
    args->how.change_user = x;
    INLAY_TRY(inlay_tune(session, &args->how, result, diag));
done:
    cli_progress_clear();
    feed_release(inputs, session);
    inlay_session_destroy(session);
    return status;
}

int cmd_tune(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc, own_options, NULL };
    tune_args args = { .how = { .struct_size = sizeof args.how } };
    inlay_tune_result result = { .struct_size = sizeof result };
    static struct changes x;
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    int code;

    cli_parse(&verb, true, argc, argv, &common, &args);
    x.list = common.json ? json_array() : NULL;
    code = tune(&args, &common, &result, &x, &diag) == INLAY_OK ? print_result(&args, &common, &result, &x)
                                                                : cli_fail(&common, &diag);
    json_decref(x.list);
    feed_deinit(&args.feed);
    cli_common_deinit(&common);
    return code;
}
