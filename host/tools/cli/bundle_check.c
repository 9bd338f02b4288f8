#include "cli/bundle_check.h"
#include "cli/inputs.h"
#include "data/compare.h"
#include "data/value.h"
#include "data/view.h"
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

struct check {
    const bundle_job *job;
    inlay_session *session;
    inlay_context *context;
    inlay_value **inputs;
    struct arena arena;
    char *in, *out; /* folders */
    inlay_diag *diag;
};

static inlay_status make_folders(struct check *check)
{
    check->in = arena_format(&check->arena, "%s/in", check->job->dir);
    check->out = arena_format(&check->arena, "%s/out", check->job->dir);
    if (check->in == NULL || check->out == NULL)
        return no_memory(check->diag, "to run the bundle");
    if ((mkdir(check->in, 0700) != 0 && errno != EEXIST) || (mkdir(check->out, 0700) != 0 && errno != EEXIST))
        return inlay_fail(check->diag, INLAY_IO_ERROR, "cannot create %s: %s", check->in, strerror(errno));
    return INLAY_OK;
}

static inlay_status run_program(struct check *check)
{
    const uint32_t count = inlay_session_input_count(check->session);
    char **files = arena_array(&check->arena, (size_t)count + 1, sizeof *files);
    inlay_status status = INLAY_OK;

    if (files == NULL)
        return no_memory(check->diag, "to run the bundle");
    for (uint32_t i = 0; i < count; i++) {
        inlay_io_info info = { .struct_size = sizeof info };

        INLAY_TRY(inlay_session_input(check->session, i, &info));
        INLAY_TRY(value_save(check->in, &info, check->inputs[i], check->diag));
        files[i] =
            arena_format(&check->arena, "%s=%s", info.name, value_path(&check->arena, check->in, info.name, ".npy"));
        if (files[i] == NULL)
            return no_memory(check->diag, "to run the bundle");
    }
    status = bundle_run_result(check->job, files, count, check->out, check->diag);
done:
    return status;
}

/* Adds the differences in output `index` to *out. */
static inlay_status compare(struct check *check, uint32_t index, bundle_check *out)
{
    inlay_io_info info = { .struct_size = sizeof info };
    inlay_tensor_view want, got;
    inlay_value *loaded = NULL;
    inlay_status status;
    double largest;
    struct comparison found;

    INLAY_TRY(inlay_session_output(check->session, index, &info));
    INLAY_TRY(value_load(arena_format(&check->arena, "%s/%u.npy", check->out, index), &info, &loaded, check->diag));
    if (!value_view(loaded, &got) || !value_view(inlay_context_output(check->context, index), &want) ||
        got.bytes != want.bytes) {
        status = inlay_fail(check->diag, INLAY_RESULTS_DIFFER, "output '%s' of the bundle has another size", info.name);
        goto done;
    }
    if (memcmp(got.data, want.data, (size_t)got.bytes) == 0)
        goto done;
    out->same = false;
    found = compare_elements(got.data, &want, inlay_value_count(loaded), 0, 0);
    largest = compare_largest(&want, inlay_value_count(loaded));
    if (largest > 0 && isfinite(found.worst) && found.worst / largest > out->largest)
        out->largest = found.worst / largest;
done:
    inlay_value_unref(loaded);
    return status;
}

inlay_status bundle_check_run(const cli_common *common, const bundle_job *job, inlay_session *session,
                              bundle_check *out, inlay_diag *diag)
{
    struct check check = { .job = job, .session = session, .diag = diag };
    struct feed feed = { .seed = 1 };
    inlay_status status;

    *out = (bundle_check){ .same = true };
    INLAY_TRY(make_folders(&check));
    INLAY_TRY(feed_make(&feed, cli_caller(common), session, &check.inputs, diag));
    INLAY_TRY(inlay_context_create(session, &check.context, diag));
    INLAY_TRY(feed_bind(check.inputs, session, check.context, diag));
    INLAY_TRY(inlay_context_run(check.context, NULL, diag));
    status = run_program(&check);
    if (status == INLAY_UNSUPPORTED) { /* no emulator */
        status = INLAY_OK;
        goto done;
    }
    if (status != INLAY_OK)
        goto done;
    out->ran = true;
    for (uint32_t i = 0; i < inlay_session_output_count(session); i++)
        INLAY_TRY(compare(&check, i, out));
done:
    feed_release(check.inputs, session);
    inlay_context_destroy(check.context);
    feed_deinit(&feed);
    arena_deinit(&check.arena);
    return status;
}
