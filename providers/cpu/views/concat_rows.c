/* Concatenation of row-major tensors, as rows of bytes. Rotary embeddings, for example, have rows of one
 * element. */
#include "cpu/region/build.h"
#include "inlay/host.h"

typedef struct concat_rows {
    cpu_native native;
    int64_t rows;
    uint64_t row_bytes; /* bytes of a row of the result */
    uint32_t count;
    uint64_t bytes[]; /* [count] bytes of a row of each operand */
} concat_rows;

typedef struct concat_call {
    const concat_rows *rows;
    void *const *args; /* the operands, then the result */
} concat_call;

#define COPY(name, type)                                                                                               \
    static void name(char *to, const char *from, int64_t rows, uint64_t stride, uint64_t count)                        \
    {                                                                                                                  \
        for (int64_t r = 0; r < rows; r++, to += stride, from += count * sizeof(type))                                 \
            for (uint64_t i = 0; i < count; i++)                                                                       \
                memcpy(to + i * sizeof(type), from + i * sizeof(type), sizeof(type));                                  \
    }
COPY(copy_bytes, uint8_t)
COPY(copy_words, uint32_t)

enum { LONG_BYTES = 64, BLOCK_BYTES = 4096 };

static void copy_rows(char *to, const char *from, int64_t rows, uint64_t stride, uint64_t bytes)
{
    if (bytes >= LONG_BYTES)
        for (int64_t r = 0; r < rows; r++)
            memcpy(to + (uint64_t)r * stride, from + (uint64_t)r * bytes, bytes);
    else if (bytes == sizeof(uint32_t))
        copy_words(to, from, rows, stride, 1);
    else if (bytes % sizeof(uint32_t) == 0)
        copy_words(to, from, rows, stride, bytes / sizeof(uint32_t));
    else
        copy_bytes(to, from, rows, stride, bytes);
}

static inlay_status copy_row_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const concat_call *call = user;
    const concat_rows *rows = call->rows;
    char *to = (char *)call->args[rows->count] + (uint64_t)begin * rows->row_bytes;

    (void)worker;
    for (uint32_t i = 0; i < rows->count; i++) {
        copy_rows(to, (const char *)call->args[i] + (uint64_t)begin * rows->bytes[i], end - begin, rows->row_bytes,
                  rows->bytes[i]);
        to += rows->bytes[i];
    }
    return INLAY_OK;
}

/* Copies blocks [begin, end) of the result's bytes, for rows that are few and long. */
static inlay_status copy_block_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const concat_call *call = user;
    const concat_rows *rows = call->rows;
    const uint64_t all = (uint64_t)rows->rows * rows->row_bytes;
    const uint64_t last = (uint64_t)end * BLOCK_BYTES < all ? (uint64_t)end * BLOCK_BYTES : all;
    uint64_t at = (uint64_t)begin * BLOCK_BYTES;

    (void)worker;
    while (at < last) {
        const uint64_t row = at / rows->row_bytes;
        uint64_t from = at % rows->row_bytes, bytes;
        uint32_t i = 0;

        while (from >= rows->bytes[i])
            from -= rows->bytes[i++];
        INLAY_CHECK(i < rows->count);
        bytes = rows->bytes[i] - from < last - at ? rows->bytes[i] - from : last - at;
        memcpy((char *)call->args[rows->count] + at, (const char *)call->args[i] + row * rows->bytes[i] + from, bytes);
        at += bytes;
    }
    return INLAY_OK;
}

static inlay_status run_rows(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const concat_rows *rows = (const concat_rows *)(const void *)native;
    concat_call call = { rows, args };
    int64_t grain = (int64_t)(65536 / (rows->row_bytes > 0 ? rows->row_bytes : 1)) + 1;

    if (threads > 1 && rows->row_bytes / rows->count >= BLOCK_BYTES)
        return state->host->parallel_for(
            state->host->ctx, run, (int64_t)(((uint64_t)rows->rows * rows->row_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES),
            65536 / BLOCK_BYTES, copy_block_range, &call);
    if (threads <= 1 || rows->rows <= grain)
        return copy_row_range(&call, 0, rows->rows, 0);
    return state->host->parallel_for(state->host->ctx, run, rows->rows, grain, copy_row_range, &call);
}

inlay_status cpu_concat_rows(cpu_build *build, const cpu_group *group, const cpu_place *places, uint32_t count)
{
    const cpu_op *op = build->op;
    const cpu_place **list = cpu_scratch_take(build->scratch, count + 1u, sizeof *list);
    concat_rows *rows = cpu_new_native(build, sizeof *rows + count * sizeof *rows->bytes);
    inlay_status status = INLAY_OK;
    cpu_place out;
    tensor_layout layout;

    if (list == NULL || rows == NULL) {
        status = inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", op->name);
        goto done;
    }
    rows->native.run = run_rows;
    rows->count = count;
    rows->rows = 1;
    layout_plain(&layout, build->ranks[group->out], build->dims[group->out]);
    layout.type = cpu_type(build, group->out);
    for (int64_t d = 0; d < op->axis; d++)
        rows->rows *= layout.dims[d];
    for (uint32_t i = 0; i < count; i++) {
        rows->bytes[i] = layout_bytes(&places[i].layout) / (uint64_t)rows->rows;
        rows->row_bytes += rows->bytes[i];
        list[i] = &places[i];
    }
    INLAY_CHECK(count > 0);
    INLAY_TRY(cpu_result_place(build, group->out, &layout, &out));
    list[count] = &out;
    INLAY_TRY(cpu_emit_native(build, &rows->native, list, count + 1));
    status = cpu_set_place(build, group->out, &out);
done:
    return status;
}
