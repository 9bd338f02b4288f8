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
    struct arena a;
    char *in, *out; /* folders */
    inlay_diag *diag;
};

static inlay_status make_folders(struct check *k)
{
    k->in = arena_format(&k->a, "%s/in", k->job->dir);
    k->out = arena_format(&k->a, "%s/out", k->job->dir);
    if (k->in == NULL || k->out == NULL)
        return no_memory(k->diag, "to try the bundle");
    if ((mkdir(k->in, 0700) != 0 && errno != EEXIST) || (mkdir(k->out, 0700) != 0 && errno != EEXIST))
        return inlay_fail(k->diag, INLAY_IO_ERROR, "cannot make %s: %s", k->in, strerror(errno));
    return INLAY_OK;
}

static inlay_status run_program(struct check *k)
{
    const uint32_t count = inlay_session_input_count(k->session);
    char **files = arena_array(&k->a, (size_t)count + 1, sizeof *files);
    inlay_status status = INLAY_OK;

    if (files == NULL)
        return no_memory(k->diag, "to try the bundle");
    for (uint32_t i = 0; i < count; i++) {
        inlay_io_info info = { .struct_size = sizeof info };

        INLAY_TRY(inlay_session_input(k->session, i, &info));
        INLAY_TRY(value_save(k->in, &info, k->inputs[i], k->diag));
        files[i] = arena_format(&k->a, "%s=%s", info.name, value_path(&k->a, k->in, info.name, ".npy"));
        if (files[i] == NULL)
            return no_memory(k->diag, "to try the bundle");
    }
    status = bundle_try(k->job, files, count, k->out, k->diag);
done:
    return status;
}

/* Adds what differs in output o. */
static inlay_status compare(struct check *k, uint32_t o, bundle_check *out)
{
    inlay_io_info info = { .struct_size = sizeof info };
    inlay_tensor_view want, got;
    inlay_value *made = NULL;
    inlay_status status;
    double largest;
    struct comparison found;

    INLAY_TRY(inlay_session_output(k->session, o, &info));
    INLAY_TRY(value_load(arena_format(&k->a, "%s/%u.npy", k->out, o), &info, &made, k->diag));
    if (!value_view(made, &got) || !value_view(inlay_context_output(k->context, o), &want) || got.bytes != want.bytes) {
        status = inlay_fail(k->diag, INLAY_INTERNAL, "the bundle's output '%s' is of another size", info.name);
        goto done;
    }
    if (memcmp(got.data, want.data, (size_t)got.bytes) == 0)
        goto done;
    out->same = false;
    found = compare_elements(got.data, &want, inlay_value_count(made), 0, 0);
    largest = compare_largest(&want, inlay_value_count(made));
    if (largest > 0 && isfinite(found.worst) && found.worst / largest > out->largest)
        out->largest = found.worst / largest;
done:
    inlay_value_unref(made);
    return status;
}

inlay_status bundle_check_run(const cli_common *common, const bundle_job *job, inlay_session *session,
                              bundle_check *out, inlay_diag *diag)
{
    struct check k = { .job = job, .session = session, .diag = diag };
    struct feed f = { .seed = 1 };
    inlay_status status;

    *out = (bundle_check){ .same = true };
    INLAY_TRY(make_folders(&k));
    INLAY_TRY(feed_make(&f, cli_caller(common), session, &k.inputs, diag));
    INLAY_TRY(inlay_context_create(session, &k.context, diag));
    INLAY_TRY(feed_bind(k.inputs, session, k.context, diag));
    INLAY_TRY(inlay_context_run(k.context, NULL, diag));
    status = run_program(&k);
    if (status == INLAY_UNSUPPORTED) { /* no emulator */
        status = INLAY_OK;
        goto done;
    }
    if (status != INLAY_OK)
        goto done;
    out->ran = true;
    for (uint32_t o = 0; o < inlay_session_output_count(session); o++)
        INLAY_TRY(compare(&k, o, out));
done:
    feed_release(k.inputs, session);
    inlay_context_destroy(k.context);
    feed_deinit(&f);
    arena_deinit(&k.a);
    return status;
}
