/* Concatenation of row-major tensors: rows of bytes one behind the other. oneDNN's kernels for that want long rows;
 * those that rotary embeddings and the like are made of have one element. */
#include "region/build.h"

typedef struct concat_rows {
    rg_native native;
    int64_t rows;
    uint64_t row_bytes; /* of the result */
    uint32_t count;
    uint64_t bytes[]; /* [count] of a row of each operand */
} concat_rows;

typedef struct concat_call {
    const concat_rows *c;
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

static inlay_status run_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const concat_call *call = user;
    const concat_rows *c = call->c;
    char *to = (char *)call->args[c->count] + (uint64_t)begin * c->row_bytes;

    (void)worker;
    for (uint32_t i = 0; i < c->count; i++) {
        copy_rows(to, (const char *)call->args[i] + (uint64_t)begin * c->bytes[i], end - begin, c->row_bytes,
                  c->bytes[i]);
        to += c->bytes[i];
    }
    return INLAY_OK;
}

/* Blocks [begin, end) of the bytes of the result: rows that are few and long. */
static inlay_status run_blocks(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const concat_call *call = user;
    const concat_rows *c = call->c;
    const uint64_t all = (uint64_t)c->rows * c->row_bytes;
    const uint64_t last = (uint64_t)end * BLOCK_BYTES < all ? (uint64_t)end * BLOCK_BYTES : all;
    uint64_t at = (uint64_t)begin * BLOCK_BYTES;

    (void)worker;
    while (at < last) {
        const uint64_t row = at / c->row_bytes;
        uint64_t from = at % c->row_bytes, bytes;
        uint32_t i = 0;

        while (from >= c->bytes[i])
            from -= c->bytes[i++];
        bytes = c->bytes[i] - from < last - at ? c->bytes[i] - from : last - at;
        memcpy((char *)call->args[c->count] + at, (const char *)call->args[i] + row * c->bytes[i] + from, bytes);
        at += bytes;
    }
    return INLAY_OK;
}

static inlay_status run_rows(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const concat_rows *c = (const concat_rows *)(const void *)native;
    concat_call call = { c, args };
    int64_t grain = (int64_t)(65536 / (c->row_bytes > 0 ? c->row_bytes : 1)) + 1;

    if (threads > 1 && c->row_bytes / c->count >= BLOCK_BYTES)
        return state->host->parallel_for(state->host->ctx, run,
                                         (int64_t)(((uint64_t)c->rows * c->row_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES),
                                         65536 / BLOCK_BYTES, run_blocks, &call);
    if (threads <= 1 || c->rows <= grain)
        return run_some(&call, 0, c->rows, 0);
    return state->host->parallel_for(state->host->ctx, run, c->rows, grain, run_some, &call);
}

inlay_status rg_concat_rows(rg_build *b, const rg_group *group, const rg_place *places, uint32_t count)
{
    const rg_op *op = b->op;
    const rg_place **list = rg_scratch_take(b->scratch, count + 1u, sizeof *list);
    concat_rows *c = rg_new_native(b, sizeof *c + count * sizeof *c->bytes);
    inlay_status status = INLAY_OK;
    rg_place out;
    rg_md md;

    if (list == NULL || c == NULL) {
        status = inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", op->name);
        goto done;
    }
    c->native.run = run_rows;
    c->count = count;
    c->rows = 1;
    rg_md_plain(&md, b->ranks[group->out], b->dims[group->out]);
    md.data_type = rg_type(b, group->out);
    for (int64_t d = 0; d < op->axis; d++)
        c->rows *= md.dims[d];
    for (uint32_t i = 0; i < count; i++) {
        c->bytes[i] = rg_md_bytes(&places[i].md) / (uint64_t)c->rows;
        c->row_bytes += c->bytes[i];
        list[i] = &places[i];
    }
    INLAY_TRY(rg_result_place(b, group->out, &md, &out));
    list[count] = &out;
    INLAY_TRY(rg_emit_native(b, &c->native, list, count + 1));
    status = rg_set_place(b, group->out, &out);
done:
    return status;
}
