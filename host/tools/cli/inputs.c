#include "cli/inputs.h"
#include "timing/timing.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

error_t feed_take_input(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    struct feed *feed = field;

    (void)option;
    if (strchr(arg, '=') == NULL)
        cli_refuse(state, CLI_USAGE,
                   "--input %s: expected NAME=FILE.npy, .npz, .pb or .csv, NAME=1,2,3 or "
                   "NAME=random",
                   arg);
    if (!LIST_GROW(feed->specs, feed->spec_count))
        return ENOMEM;
    feed->specs[feed->spec_count++] = arg;
    return 0;
}

error_t feed_take_seed(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    char *end = NULL;

    (void)option;
    errno = 0;
    *(uint64_t *)field = strtoull(arg, &end, 0);
    if (*end != '\0' || end == arg || errno != 0 || strchr(arg, '-') != NULL)
        cli_refuse(state, CLI_USAGE, "--seed %s: expected a number of at least 0", arg);
    return 0;
}

inlay_status first_run_make(struct feed *feed, const struct grow *grow, const cli_common *common,
                            inlay_session *session, const inlay_run_options *options, first_run *out, inlay_diag *diag)
{
    const bool grows = grow != NULL && grow->count > 0;
    inlay_status status;

    *out = (first_run){ 0 };
    feed->defer_report = true;
    feed->starts = grows ? grow->specs : NULL;
    feed->start_count = grows ? grow->count : 0;
    do {
        first_run_deinit(out, session);
        INLAY_TRY(feed_make(feed, cli_caller(common), session, &out->inputs, diag));
        INLAY_TRY(inlay_context_create(session, &out->context, diag));
        INLAY_TRY(grows ? grow_bind(grow, 0, out->inputs, session, out->context, diag)
                        : feed_bind(out->inputs, session, out->context, diag));
        status = timing_run(out->context, options, &out->ms, diag);
    } while (!grows && feed_next_sizes(feed, status));
    feed_report_sizes(feed, cli_caller(common), session, out->inputs);
done:
    return status;
}

void first_run_deinit(first_run *run, const inlay_session *session)
{
    inlay_context_destroy(run->context);
    feed_release(run->inputs, session);
    *run = (first_run){ 0 };
}
