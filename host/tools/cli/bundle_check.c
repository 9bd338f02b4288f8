#include "cli/bundle_check.h"
#include "base/element.h"
#include "base/random.h"
#include "cli/inputs.h"
#include "data/compare.h"
#include "data/value.h"
#include "data/view.h"
#include <errno.h>
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

enum { AS_RUN, WHOLE_RANGE, ENDS, DRAWS };

/* Changes a random input to the kind of the draw. Integers of 8 and 16 bits are quantized numbers or zero points; wider
 * ones are usually indexes or sizes, and keep the values that `inlay run` generates. */
static void change_input(inlay_value *value, int draw, uint64_t seed)
{
    enum { FACTOR = 16 };
    const inlay_dtype dtype = inlay_value_dtype(value);
    const uint32_t bits = inlay_dtype_bits(dtype);
    const bool is_signed = dtype == INLAY_INT8 || dtype == INLAY_INT16;
    const int64_t count = inlay_value_count(value), low = is_signed ? -(INT64_C(1) << (bits - 1)) : 0,
                  high = low + (INT64_C(1) << bits) - 1;
    void *data = inlay_value_data(value);

    if (inlay_value_kind(value) != INLAY_KIND_TENSOR)
        return;
    if (is_signed || dtype == INLAY_UINT8 || dtype == INLAY_UINT16)
        for (int64_t i = 0; i < count; i++) {
            const int64_t random = (int64_t)(random_bits(&seed) >> 33);
            const int64_t ends[] = { low, high, high, low + 1 };

            (void)element_put(dtype, data, i, draw == ENDS ? ends[random % 4] : low + random % (high - low + 1));
        }
    for (int64_t i = 0; draw == ENDS && dtype == INLAY_FLOAT && i < count; i++)
        ((float *)data)[i] *= FACTOR;
    for (int64_t i = 0; draw == ENDS && dtype == INLAY_DOUBLE && i < count; i++)
        ((double *)data)[i] *= FACTOR;
}

/* Makes the inputs of a draw and runs the session on them. */
static inlay_status run_session(struct check *check, feed_caller caller, int draw)
{
    struct feed feed = { .seed = 1 + (uint64_t)draw };
    inlay_status status;

    INLAY_TRY(feed_make(&feed, caller, check->session, &check->inputs, check->diag));
    for (uint32_t i = 0; draw != AS_RUN && i < inlay_session_input_count(check->session); i++)
        if (check->inputs[i] != NULL)
            change_input(check->inputs[i], draw, feed.seed + i);
    INLAY_TRY(inlay_context_create(check->session, &check->context, check->diag));
    INLAY_TRY(feed_bind(check->inputs, check->session, check->context, check->diag));
    status = inlay_context_run(check->context, NULL, check->diag);
done:
    feed_deinit(&feed);
    return status;
}

/* Compares output `index`. */
static inlay_status compare(struct check *check, uint32_t index, bundle_check *out)
{
    inlay_io_info info = { .struct_size = sizeof info };
    inlay_tensor_view want, got;
    inlay_value *loaded = NULL;
    inlay_status status;
    double difference, rtol, atol;

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
    difference = compare_elements(got.data, &want, inlay_value_count(loaded), 0, 0).worst;
    if (difference > 0) /* otherwise only bits of NaN or the sign of 0 differ; x / 0 is infinite */
        difference /= compare_largest(&want, inlay_value_count(loaded));
    element_tolerance(want.dtype, &rtol, &atol);
    if (difference > (out->rtol < 0 ? rtol : out->rtol))
        status = inlay_fail(check->diag, INLAY_RESULTS_DIFFER,
                            "output '%.100s' of the program differs by %.1e of its largest element from a session with "
                            "the same providers, and may differ by %.1e: no program was written (--rtol changes the "
                            "bound; --size and --for select other kernels)",
                            info.name, difference, out->rtol < 0 ? rtol : out->rtol);
    out->largest = difference > out->largest ? difference : out->largest;
done:
    inlay_value_unref(loaded);
    return status;
}

static inlay_status run_draw(struct check *check, feed_caller caller, int draw, bundle_check *out)
{
    inlay_status status = run_session(check, caller, draw);

    if (status != INLAY_OK) {
        if (draw != AS_RUN) /* the model refuses these inputs */
            status = INLAY_OK;
        goto done;
    }
    status = run_program(check);
    out->ran = status != INLAY_UNSUPPORTED; /* there is no emulator */
    if (!out->ran)
        status = INLAY_OK;
    INLAY_TRY(status);
    for (uint32_t i = 0; out->ran && i < inlay_session_output_count(check->session); i++)
        INLAY_TRY(compare(check, i, out));
done:
    feed_release(check->inputs, check->session);
    check->inputs = NULL;
    inlay_context_destroy(check->context);
    check->context = NULL;
    return status;
}

inlay_status bundle_check_run(const cli_common *common, const bundle_job *job, inlay_session *session,
                              bundle_check *out, inlay_diag *diag)
{
    struct check check = { .job = job, .session = session, .diag = diag };
    inlay_status status;

    *out = (bundle_check){ .rtol = out->rtol, .same = true };
    INLAY_TRY(make_folders(&check));
    for (int draw = 0; draw < DRAWS && (draw == AS_RUN || out->ran); draw++)
        INLAY_TRY(run_draw(&check, cli_caller(common), draw, out));
done:
    arena_deinit(&check.arena);
    return status;
}
