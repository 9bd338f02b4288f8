/* The table of a missing library: only built-in kernels exist. Compiling a region that needs another kernel returns
 * INLAY_UNSUPPORTED. */
#include "cpu/region/build.h"
#include "cpu/matrix/sgemm.h"

#define UNSUPPORTED(out) (*(out) = NULL, LIBRARY_UNIMPLEMENTED)

static library_status describe(library_engine engine, const library_op *op, const library_attr *attr,
                               library_description *out)
{
    (void)engine, (void)op, (void)attr;
    return UNSUPPORTED(out);
}

static library_status describe_reorder(library_engine engine, const memory_desc *from, const memory_desc *to,
                                       library_description *out)
{
    (void)engine, (void)from, (void)to;
    return UNSUPPORTED(out);
}

static library_status describe_concat(library_engine engine, const memory_desc *output, int axis, const memory_desc *xs,
                                      uint32_t count, library_description *out)
{
    (void)engine, (void)output, (void)axis, (void)xs, (void)count;
    return UNSUPPORTED(out);
}

static library_status clone(library_description *out, library_const_description pd)
{
    (void)pd;
    return UNSUPPORTED(out);
}

static void destroy(library_description pd)
{
    (void)pd;
}

static bool knows(const memory_desc *md)
{
    (void)md;
    return true;
}

static const memory_desc *layout(library_const_description pd, library_operand which, memory_desc *out)
{
    (void)pd, (void)which;
    *out = (memory_desc){ 0 };
    return out;
}

static const char *name(library_const_description pd)
{
    (void)pd;
    return "";
}

static library_status engine_create(library_engine *out)
{
    return UNSUPPORTED(out);
}

static void engine_destroy(library_engine engine)
{
    (void)engine;
}

static library_status stream_create(library_engine engine, library_stream *out)
{
    (void)engine;
    return UNSUPPORTED(out);
}

static library_status stream_wait(library_stream stream)
{
    (void)stream;
    return LIBRARY_UNIMPLEMENTED;
}

static void stream_destroy(library_stream stream)
{
    (void)stream;
}

static library_status primitive_create(library_const_description pd, library_primitive *out)
{
    (void)pd;
    return UNSUPPORTED(out);
}

static int operand_number(int id)
{
    return id;
}

static library_status primitive_execute(library_primitive primitive, library_stream stream, uint32_t count,
                                        const library_arg *args)
{
    (void)primitive, (void)stream, (void)count, (void)args;
    return LIBRARY_UNIMPLEMENTED;
}

static void primitive_destroy(library_primitive primitive)
{
    (void)primitive;
}

static library_status memory_create(library_engine engine, const memory_desc *md, void *data, library_memory *out)
{
    (void)engine, (void)md, (void)data;
    return UNSUPPORTED(out);
}

static library_status memory_move(library_memory memory, void *data, library_stream stream)
{
    (void)memory, (void)data, (void)stream;
    return LIBRARY_UNIMPLEMENTED;
}

static void memory_destroy(library_memory memory)
{
    (void)memory;
}

/* The offset of an element in memory, in elements. */
static int64_t element_offset(const memory_desc *md, const int64_t *index)
{
    int64_t rest[LIBRARY_MAX_NDIMS], offset = 0, step = 1;

    memcpy(rest, index, (size_t)md->ndims * sizeof *rest);
    for (int32_t i = md->inner_nblks; i-- > 0;) {
        const int64_t axis = md->inner_idxs[i], block = md->inner_blks[i];

        offset += rest[axis] % block * step;
        rest[axis] /= block;
        step *= block;
    }
    for (int32_t d = 0; d < md->ndims; d++)
        offset += rest[d] * md->strides[d];
    return offset;
}

/* Reorders constants, once, when a program is built or starts. Layouts that memory_desc_copy_part does not support,
 * such as those of bytes, are copied element by element. */
static library_status reorder(library_engine engine, const memory_desc *from, const void *source, const memory_desc *to,
                              void *target, const int64_t *dims, const int64_t *offsets)
{
    int64_t index[LIBRARY_MAX_NDIMS] = { 0 };
    const size_t bytes = from->data_type == LIBRARY_F32 || from->data_type == LIBRARY_S32 ? 4
                         : from->data_type == LIBRARY_U8 || from->data_type == LIBRARY_S8 ? 1
                                                                                          : 0;
    int32_t d;

    (void)engine;
    if (bytes == 0 || from->data_type != to->data_type || from->ndims != to->ndims || from->kind != CPU_BLOCKED ||
        to->kind != CPU_BLOCKED)
        return LIBRARY_UNIMPLEMENTED;
    if (dims == NULL) {
        memset(target, 0, (size_t)memory_desc_bytes(to)); /* the padding of blocks */
        dims = from->dims;
    }
    for (d = 0; d < from->ndims; d++) {
        if (dims[d] == 0)
            return LIBRARY_SUCCESS;
        index[d] = offsets != NULL ? offsets[d] : 0;
    }
    if (memory_desc_copy_part(from, source, to, target, dims, index))
        return LIBRARY_SUCCESS;
    do {
        memcpy((char *)target + (size_t)element_offset(to, index) * bytes,
               (const char *)source + (size_t)element_offset(from, index) * bytes, bytes);
        for (d = from->ndims; d-- > 0;) {
            const int64_t first = offsets != NULL ? offsets[d] : 0;

            if (++index[d] < first + dims[d])
                break;
            index[d] = first;
        }
    } while (d >= 0);
    return LIBRARY_SUCCESS;
}

/* GEMM with unpacked weights by the built-in kernel, with sums in short chains (sgemm_chain with strict = true). */
static library_status sgemm(bool a_turned, bool b_turned, int64_t m, int64_t n, int64_t k, const float *a,
                            int64_t a_line, const float *b, int64_t b_line, float *output, int64_t y_line)
{
    const sgemm_job job = { .kernel = sgemm_kernel_best(),
                            .m = m,
                            .n = n,
                            .k = k,
                            .chain = sgemm_chain(k, true),
                            .a = a,
                            .a_row = a_line,
                            .b = b,
                            .width = SGEMM_WIDTH,
                            .b_panel = SGEMM_WIDTH,
                            .b_step = b_line,
                            .c = output,
                            .c_row = y_line };

    if (a_turned || b_turned)
        return LIBRARY_UNIMPLEMENTED;
    if (m < 1 || n < 1)
        return LIBRARY_SUCCESS;
    if (k < 1) {
        for (int64_t row = 0; row < m; row++)
            memset(output + row * y_line, 0, (size_t)n * sizeof *output);
        return LIBRARY_SUCCESS;
    }
    sgemm_run(&job, 0, sgemm_units(&job));
    return LIBRARY_SUCCESS;
}

static bool has_isa(library_isa isa)
{
    (void)isa;
    return false;
}

static uint64_t version(void)
{
    return 0;
}

static bool has_winograd(void)
{
    return false;
}

static int opaque_words(const memory_desc *md, int64_t *out, int most)
{
    (void)md, (void)out, (void)most;
    return 0;
}

static bool pack_winograd(const cpu_state *state, const memory_desc *plain, const void *source, const memory_desc *md,
                          void *target)
{
    (void)state, (void)plain, (void)source, (void)md, (void)target;
    return false;
}

const primitive_library library_none = {
    .title = "this provider",
    .describe = describe,
    .describe_reorder = describe_reorder,
    .describe_concat = describe_concat,
    .clone = clone,
    .destroy = destroy,
    .knows = knows,
    .layout = layout,
    .name = name,
    .engine_create = engine_create,
    .engine_destroy = engine_destroy,
    .stream_create = stream_create,
    .stream_wait = stream_wait,
    .stream_destroy = stream_destroy,
    .primitive_create = primitive_create,
    .operand_number = operand_number,
    .primitive_execute = primitive_execute,
    .primitive_destroy = primitive_destroy,
    .memory_create = memory_create,
    .memory_move = memory_move,
    .memory_destroy = memory_destroy,
    .reorder = reorder,
    .sgemm = sgemm,
    .has_isa = has_isa,
    .version = version,
    .has_winograd = has_winograd,
    .opaque_words = opaque_words,
    .pack_winograd = pack_winograd,
};

const primitive_library *library_in_use = &library_none;
