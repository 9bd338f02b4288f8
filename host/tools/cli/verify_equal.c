#include "cli/verify_equal.h"
#include "cli/inputs.h"
#include "data/compare.h"
#include "data/dataset.h"
#include "quantize/evaluate.h"

static inlay_status compare_runs(const struct subject *a, const struct subject *b, double rtol, double atol,
                                 inlay_diag *diag)
{
    for (uint32_t i = 0; i < inlay_session_output_count(a->session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        inlay_status status = inlay_session_output(a->session, i, &info);
        const uint32_t named = status == INLAY_OK ? inlay_session_find_output(b->session, info.name) : INLAY_NONE;
        const inlay_value *want = inlay_context_output(a->context, i);
        const inlay_value *got = inlay_context_output(b->context, named != INLAY_NONE ? named : i);
        char text[256];
        bool same;

        if (status != INLAY_OK)
            return status;
        if (want == NULL || got == NULL)
            continue;
        status = compare_values(got, want, rtol, atol, &same, text, sizeof text, diag);
        if (status != INLAY_OK)
            return status;
        if (!same)
            return inlay_fail(diag, INLAY_RESULTS_DIFFER, "output '%.100s' differs: %s", info.name, text);
    }
    return INLAY_OK;
}

inlay_status verify_equal_outputs(const cli_common *common, const char *a, const char *b, uint32_t samples, double rtol,
                                  double atol, double seconds, verify_equal_times *out, inlay_diag *diag)
{
    const char *const paths[] = { a, b };
    feed_caller quiet = cli_caller(common); /* assumed sizes were reported when the model was run before */
    struct subject both[2] = { { .session = NULL }, { .session = NULL } };
    inlay_options *options = NULL;
    inlay_value **values = NULL;
    struct dataset *set = NULL;
    struct samples list;
    inlay_status status;

    *out = (verify_equal_times){ 0 };
    quiet.quiet = true;
    INLAY_TRY(evaluate_options(common->options, NULL, NULL, &options, diag));
    for (int k = 0; k < 2; k++)
        INLAY_TRY(subject_open(paths[k], options, &both[k], diag));
    INLAY_TRY(dataset_open(NULL, samples, quiet, both[1].session, &set, diag));
    list = dataset_samples(set);
    INLAY_TRY(samples_fit(&list, both[0].session, diag));
    for (uint32_t i = 0; i < list.count; i++) {
        if (cli_progress(NULL, (double)i / (list.count + 1), "comparing") != 0) {
            status = inlay_fail(diag, INLAY_CANCELLED, "stopped");
            goto done;
        }
        INLAY_TRY(samples_load(&list, i, &values, diag));
        for (int k = 0; k < 2; k++)
            INLAY_TRY(samples_run(&list, values, both[k].session, both[k].context, diag));
        INLAY_TRY(compare_runs(&both[0], &both[1], rtol, atol, diag));
        samples_release(&list, values);
        values = NULL;
        out->samples++;
    }
    if (seconds > 0)
        INLAY_TRY(evaluate_time(&list, &both[0], &both[1], seconds, &out->a_ms, &out->b_ms, diag));
done:
    cli_progress_clear();
    if (set != NULL)
        samples_release(&list, values);
    dataset_close(set);
    subject_close(&both[1]);
    subject_close(&both[0]);
    inlay_options_destroy(options);
    return status;
}
