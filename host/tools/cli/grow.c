#include "cli/grow.h"
#include "base/checked.h"
#include "infer/dim_sums.h"
#include "inlay/check.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE_MAX_GROWN = 1 << 24 };

/* Parses an argument of --grow; *start is -1 if it has none. False: invalid. */
static bool read_spec(const char *spec, size_t *name_bytes, int64_t *start, int64_t *step)
{
    const char *equals = strrchr(spec, '=');
    char *end = NULL;

    errno = 0;
    if (equals == NULL || equals == spec || equals[1] < '0' || equals[1] > '9')
        return false;
    *name_bytes = (size_t)(equals - spec);
    *start = -1;
    *step = strtol(equals + 1, &end, 10);
    if (*end == '+' && end[1] >= '0' && end[1] <= '9') {
        *start = *step;
        *step = strtol(end + 1, &end, 10);
    }
    return *end == '\0' && errno == 0 && *step <= SIZE_MAX_GROWN && *start <= SIZE_MAX_GROWN;
}

error_t grow_add(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    struct grow *grow = field;
    int64_t start, step;
    size_t name_bytes;

    (void)option;
    if (!read_spec(arg, &name_bytes, &start, &step))
        cli_refuse(state, CLI_USAGE, "--grow %s: expected NAME=STEP or NAME=START+STEP, of at most %d", arg,
                   (int)SIZE_MAX_GROWN);
    if (!LIST_GROW(grow->specs, grow->count))
        return ENOMEM;
    grow->specs[grow->count++] = arg;
    return 0;
}

void grow_deinit(struct grow *grow)
{
    free(grow->specs);
    *grow = (struct grow){ 0 };
}

/* The size in run `run` of an axis with this name, which is `size` in the base values. Sets used[] of the matching
 * arguments. False: too large. */
static bool size_of(const struct grow *grow, const char *name, uint64_t run, int64_t size, uint32_t *used, int64_t *out)
{
    int64_t start, step, more;
    size_t name_bytes;

    *out = size;
    for (uint32_t i = 0; i < grow->count; i++) {
        if (!read_spec(grow->specs[i], &name_bytes, &start, &step) || strlen(name) != name_bytes ||
            strncmp(grow->specs[i], name, name_bytes) != 0)
            continue;
        used[i] = 1;
        if (__builtin_mul_overflow(run, step, &more) || __builtin_add_overflow(start < 0 ? size : start, more, out))
            return false;
    }
    return true;
}

/* Context of the size computation of one run. */
struct sizes {
    const struct grow *grow;
    const inlay_session *session;
    inlay_value *const *values;
    uint64_t run;
    uint32_t *used;
    bool grows; /* out: an axis named by --grow has another size */
};

/* The size of the axis with this name in the base values; -1: no input has it. */
static int64_t size_now(const struct sizes *sizes, const char *name, size_t bytes)
{
    inlay_io_info info = { .struct_size = sizeof info };

    for (uint32_t i = 0; inlay_session_input(sizes->session, i, &info) == INLAY_OK; i++)
        for (uint32_t d = 0; sizes->values[i] != NULL && info.dim_names != NULL &&
                             info.rank == inlay_value_rank(sizes->values[i]) && d < info.rank;
             d++)
            if (strlen(info.dim_names[d]) == bytes && memcmp(info.dim_names[d], name, bytes) == 0)
                return inlay_value_dims(sizes->values[i])[d];
    return -1;
}

/* The size in this run of one name within a sum of names. */
static int64_t part_size(void *ctx, const char *name, size_t bytes)
{
    struct sizes *sizes = ctx;
    int64_t now = size_now(sizes, name, bytes), size;
    char text[MAX_TEXT + 1];

    if (now < 0 || bytes > MAX_TEXT)
        return -1;
    memcpy(text, name, bytes);
    text[bytes] = '\0';
    if (!size_of(sizes->grow, text, sizes->run, now, sizes->used, &size))
        return -1;
    sizes->grows |= size != now;
    return size;
}

/* size_of() for a name that may be a sum: "past + new" follows from the sizes of past and new. */
static bool whole_size(struct sizes *sizes, const char *name, int64_t now, int64_t *out)
{
    struct sum total;

    if (!size_of(sizes->grow, name, sizes->run, now, sizes->used, out))
        return false;
    sizes->grows = false;
    if (*out != now || strchr(name, ' ') == NULL || !sum_read_with(name, part_size, sizes, &total) || !sizes->grows)
        return true;
    *out = sum_value(&total);
    return *out >= 0 && *out <= SIZE_MAX_GROWN;
}

/* Fills out, which has dims[rank] elements of `width` bytes, by repeating `in`, which has from[rank], along each axis.
 */
static void repeat(char *out, const int64_t *dims, const char *in, const int64_t *from, uint32_t rank, size_t width)
{
    int64_t inner = 1, source = 1;

    INLAY_CHECK(width > 0);
    if (rank == 0) {
        memcpy(out, in, width);
        return;
    }
    for (uint32_t d = 1; d < rank; d++) {
        inner *= dims[d];
        source *= from[d];
    }
    for (int64_t i = 0; i < dims[0]; i++)
        repeat(out + (size_t)(i * inner) * width, dims + 1, in + (size_t)(i % from[0] * source) * width, from + 1,
               rank - 1, width);
}

/* Creates the value for this run: another reference to the base value if none of its axes grows. */
static inlay_status grown(struct sizes *sizes, inlay_value *value, const inlay_io_info *info, inlay_value **out,
                          inlay_diag *diag)
{
    uint32_t rank = inlay_value_rank(value), bits = inlay_dtype_bits(inlay_value_dtype(value));
    const int64_t *from = inlay_value_dims(value);
    int64_t dims[INLAY_MAX_RANK];
    bool differs = false;
    inlay_status status;

    *out = inlay_value_ref(value);
    if (inlay_value_kind(value) != INLAY_KIND_TENSOR || info->rank != rank || info->dim_names == NULL)
        return INLAY_OK;
    for (uint32_t d = 0; d < rank; d++) {
        if (!whole_size(sizes, info->dim_names[d], from[d], &dims[d]))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--grow: input '%s' becomes too large", info->name);
        differs |= dims[d] != from[d];
    }
    if (!differs)
        return INLAY_OK;
    if (bits < 8 || inlay_value_dtype(value) == INLAY_STRING)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--grow: elements of input '%s' cannot be repeated",
                          info->name);
    inlay_value_unref(*out);
    status = inlay_value_create(inlay_value_dtype(value), rank, dims, out, diag);
    if (status != INLAY_OK)
        *out = NULL;
    else if (inlay_value_count(value) > 0)
        repeat(inlay_value_data(*out), dims, inlay_value_data(value), from, rank, bits / 8);
    else
        memset(inlay_value_data(*out), 0, inlay_value_bytes(*out));
    return status;
}

inlay_status grow_bind(const struct grow *grow, uint64_t step, inlay_value *const *values, const inlay_session *session,
                       inlay_context *context, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    uint32_t *used = calloc((size_t)grow->count + 1, sizeof *used);
    struct sizes sizes = { .grow = grow, .session = session, .values = values, .run = step, .used = used };
    inlay_value *value = NULL;

    if (used == NULL)
        return no_memory(diag, "to grow inputs");
    for (uint32_t i = 0; i < inlay_session_input_count(session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };

        INLAY_TRY(inlay_session_input(session, i, &info));
        if (values[i] == NULL)
            continue;
        INLAY_TRY(grown(&sizes, values[i], &info, &value, diag));
        INLAY_TRY(inlay_context_set_input(context, i, value, diag));
        inlay_value_unref(value);
        value = NULL;
    }
    for (uint32_t i = 0; i < grow->count; i++) {
        if (used[i])
            continue;
        status =
            inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                       "--grow %s: no input has an open axis with that name; inlay inspect lists them, --dim fixes "
                       "them",
                       grow->specs[i]);
        goto done;
    }
done:
    inlay_value_unref(value);
    free(used);
    return status;
}
