/* Runs of `inlay bisect`, and the comparison of two of them. */
#include "cli/bisect.h"
#include "base/among.h"
#include "cli/inputs.h"
#include "config/options.h"
#include "data/compare.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void trial_end(struct trial *trial)
{
    inlay_context_destroy(trial->context);
    inlay_session_destroy(trial->session);
    *trial = (struct trial){ 0 };
}

/* Is `name` one of the names in the list, which are separated by commas and may end in "?"? */
static bool is_listed(const char *list, const char *name, size_t length)
{
    while (*list != '\0') {
        size_t n = strcspn(list, ",?");

        if (n == length && memcmp(list, name, n) == 0)
            return true;
        list += strcspn(list, ",");
        list += *list == ',';
    }
    return false;
}

/* Does an option of the command line apply to a run with these providers? NULL: the providers of the command line.
 * Settings of other providers would be refused, and placement options no longer apply. */
static bool is_applicable(const inlay_setting *item, const char *providers)
{
    const char *dot = strchr(item->name, '.');

    if (providers == NULL || providers[0] == '\0')
        return true;
    if (is_among(item->name, "pin forbid require plan objective policy max_partitions no_cpu memory_limit"))
        return false;
    return dot == NULL || is_listed(providers, item->name, (size_t)(dot - item->name));
}

inlay_status trial_options(const struct search *search, const struct setting *list, uint32_t count,
                           inlay_options **out_options, inlay_diag *diag)
{
    inlay_options *copy = NULL;
    inlay_setting item = { .struct_size = sizeof item };
    const char *providers = NULL;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < count; i++)
        providers = strcmp(list[i].name, "providers") == 0 ? list[i].value : providers;
    INLAY_TRY(inlay_options_create(&copy, diag));
    for (uint32_t i = 0; inlay_options_setting(search->common->options, i, &item) == INLAY_OK; i++)
        if (item.source != INLAY_SOURCE_DEFAULT && item.text[0] != '\0' && is_applicable(&item, providers))
            INLAY_TRY(options_set_item(copy, item.name, item.text, diag));
    for (uint32_t i = 0; i < count; i++)
        INLAY_TRY(inlay_options_set(copy, list[i].name, list[i].value, diag));
    if (search->tap != NULL)
        INLAY_TRY(options_set_item(copy, "tap", search->tap, diag));
    *out_options = copy;
    copy = NULL;
done:
    inlay_options_destroy(copy);
    return status;
}

inlay_status trial_run(struct search *search, const struct setting *list, uint32_t count, struct trial *out,
                       inlay_diag *diag)
{
    cli_common *common = &search->of_trials;
    struct feed given = search->args->feed; /* shares the flags; results of feed_make() stay local */
    inlay_value **inputs = NULL;
    inlay_run_options run = { .struct_size = sizeof run, .cancel = cli_cancel() };
    inlay_status status = INLAY_OK;
    char label[48];

    *out = (struct trial){ 0 };
    *common = *search->common;
    common->options = NULL;
    common->quiet |= search->runs > 0; /* print each note once */
    (void)snprintf(label, sizeof label, "run %u", ++search->runs);
    if (cli_progress(NULL, 1 - 4.0 / (4 + search->runs), label) != 0)
        return inlay_fail(diag, INLAY_CANCELLED, "stopped");
    INLAY_TRY(trial_options(search, list, count, &common->options, diag));
    INLAY_TRY(cli_open(common, search->args->model, &out->session, diag));
    given.trial = true;
    given.made = NULL;
    INLAY_TRY(feed_make(&given, cli_caller(common), out->session, &inputs, diag));
    INLAY_TRY(inlay_context_create(out->session, &out->context, diag));
    INLAY_TRY(feed_bind(inputs, out->session, out->context, diag));
    INLAY_TRY(inlay_context_run(out->context, &run, diag));
done:
    if (out->session != NULL)
        feed_release(inputs, out->session);
    free(given.made);
    inlay_options_destroy(common->options);
    common->options = NULL;
    if (status != INLAY_OK)
        trial_end(out);
    return status;
}

inlay_status trial_compare(const struct search *search, const struct trial *a, const struct trial *b, uint32_t first,
                           struct difference *out, inlay_diag *diag)
{
    uint32_t count = inlay_session_output_count(a->session);
    INLAY_CHECK(a->context != NULL && b->context != NULL);

    *out = (struct difference){ 0 };
    for (uint32_t k = 0; k < count && !out->found; k++) {
        uint32_t i = (first + k) % count;
        inlay_io_info info = { .struct_size = sizeof info };
        const inlay_value *got, *want;
        inlay_status status;
        uint32_t at;
        bool same;

        (void)inlay_session_output(a->session, i, &info);
        at = inlay_session_find_output(b->session, info.name);
        got = inlay_context_output(a->context, i);
        want = at == INLAY_NONE ? NULL : inlay_context_output(b->context, at);
        if (got == NULL || want == NULL)
            continue;
        status =
            compare_values(got, want, search->args->rtol, search->args->atol, &same, out->text, sizeof out->text, diag);
        if (status != INLAY_OK)
            return status;
        out->found = !same;
        if (!same)
            (void)snprintf(out->output, sizeof out->output, "%s", info.name);
    }
    return INLAY_OK;
}

inlay_status trial_differs(struct search *search, const struct setting *list, uint32_t count, const struct trial *good,
                           struct difference *out, inlay_diag *diag)
{
    struct trial trial;
    inlay_status status = trial_run(search, list, count, &trial, diag);

    if (status == INLAY_OK)
        status = trial_compare(search, &trial, good, 0, out, diag);
    trial_end(&trial);
    return status;
}
