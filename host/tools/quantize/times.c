#include "quantize/times.h"
#include "base/strbuf.h"
#include <jansson.h>
#include <string.h>

enum { RUNS = 12, MOST_EVENTS = 1 << 18 }; /* profiled runs; limit of the events of a profile */

static inlay_status run_profiled(const struct subject *subject, const struct samples *set, inlay_diag *diag)
{
    inlay_value **values = NULL;
    inlay_status status;

    INLAY_TRY(samples_load(set, 0, &values, diag));
    INLAY_TRY(samples_run(set, values, subject->session, subject->context, diag)); /* warm-up: lazy initialisation */
    INLAY_TRY(inlay_context_profile(subject->context, 1, MOST_EVENTS, diag));
    for (int i = 0; i < RUNS; i++)
        INLAY_TRY(samples_run(set, values, subject->session, subject->context, diag));
done:
    samples_release(set, values);
    return status;
}

/* Adds the times of leaf steps, which contain no other step. */
static void add_steps(const json_t *profile, const char *const *names, uint32_t count, double *out)
{
    const json_t *steps = json_object_get(profile, "steps"), *step;
    size_t i;

    json_array_foreach(steps, i, step) {
        const char *name = json_string_value(json_object_get(step, "name"));

        if (name == NULL || !json_is_true(json_object_get(step, "leaf")))
            continue;
        for (uint32_t k = 0; k < count; k++)
            if (strcmp(names[k], name) == 0) {
                out[k] += json_number_value(json_object_get(step, "ns"));
                break;
            }
    }
}

inlay_status layer_times(const struct subject *subject, const struct samples *set, const char *const *names,
                         uint32_t count, double *out, double *out_run_ns, inlay_diag *diag)
{
    const inlay_profile_options how = { .struct_size = sizeof how, .format = "json" };
    struct strbuf text = { 0 };
    json_t *profile = NULL;
    inlay_status status;

    *out_run_ns = 0;
    for (uint32_t i = 0; i < count; i++)
        out[i] = 0;
    INLAY_TRY(run_profiled(subject, set, diag));
    INLAY_TRY(inlay_context_profile_write(subject->context, &how, strbuf_write, &text, diag));
    if (!text.failed)
        profile = json_loadb(text.data, text.size, 0, NULL);
    if (profile == NULL) {
        status = no_memory(diag, "for a profile");
        goto done;
    }
    *out_run_ns = json_number_value(json_object_get(profile, "run_ns"));
    add_steps(profile, names, count, out);
done:
    (void)inlay_context_profile(subject->context, 0, 0, NULL);
    json_decref(profile);
    strbuf_deinit(&text);
    return status;
}
