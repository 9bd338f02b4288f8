/* No library: there is no kernel but those of this folder. A region that needs one is INLAY_UNSUPPORTED when it is
 * compiled. */
#include "region/build.h"
#include "matrix/sgemm.h"

#define NOTHING(out) (*(out) = NULL, DN_UNIMPLEMENTED)

static dn_status describe(dn_engine engine, const dn_op *op, const dn_attr *attr, dn_description *out)
{
    (void)engine, (void)op, (void)attr;
    return NOTHING(out);
}

static dn_status describe_reorder(dn_engine engine, const rg_md *from, const rg_md *to, dn_description *out)
{
    (void)engine, (void)from, (void)to;
    return NOTHING(out);
}

static dn_status describe_concat(dn_engine engine, const rg_md *output, int axis, const rg_md *xs, uint32_t count,
                                 dn_description *out)
{
    (void)engine, (void)output, (void)axis, (void)xs, (void)count;
    return NOTHING(out);
}

static dn_status clone(dn_description *out, dn_const_description pd)
{
    (void)pd;
    return NOTHING(out);
}

static void destroy(dn_description pd)
{
    (void)pd;
}

static bool knows(const rg_md *md)
{
    (void)md;
    return true;
}

static const rg_md *layout(dn_const_description pd, dn_operand which, rg_md *out)
{
    (void)pd, (void)which;
    *out = (rg_md){ 0 };
    return out;
}

static const char *name(dn_const_description pd)
{
    (void)pd;
    return "";
}

static dn_status engine_create(dn_engine *out)
{
    return NOTHING(out);
}

static void engine_destroy(dn_engine engine)
{
    (void)engine;
}

static dn_status stream_create(dn_engine engine, dn_stream *out)
{
    (void)engine;
    return NOTHING(out);
}

static dn_status stream_wait(dn_stream stream)
{
    (void)stream;
    return DN_UNIMPLEMENTED;
}

static void stream_destroy(dn_stream stream)
{
    (void)stream;
}

static dn_status primitive_create(dn_const_description pd, dn_primitive *out)
{
    (void)pd;
    return NOTHING(out);
}

static int operand_number(int id)
{
    return id;
}

static dn_status primitive_execute(dn_primitive primitive, dn_stream stream, uint32_t count, const dn_arg *args)
{
    (void)primitive, (void)stream, (void)count, (void)args;
    return DN_UNIMPLEMENTED;
}

static void primitive_destroy(dn_primitive primitive)
{
    (void)primitive;
}

static dn_status memory_create(dn_engine engine, const rg_md *md, void *data, dn_memory *out)
{
    (void)engine, (void)md, (void)data;
    return NOTHING(out);
}

static dn_status memory_move(dn_memory memory, void *data, dn_stream stream)
{
    (void)memory, (void)data, (void)stream;
    return DN_UNIMPLEMENTED;
}

static void memory_destroy(dn_memory memory)
{
    (void)memory;
}

/* Where the element with this index lies, in elements from the start. */
static int64_t place_of(const rg_md *md, const int64_t *index)
{
    int64_t left[DN_MAX_NDIMS], at = 0, step = 1;

    memcpy(left, index, (size_t)md->ndims * sizeof *left);
    for (int32_t i = md->inner_nblks; i-- > 0;) {
        const int64_t axis = md->inner_idxs[i], block = md->inner_blks[i];

        at += left[axis] % block * step;
        left[axis] /= block;
        step *= block;
    }
    for (int32_t d = 0; d < md->ndims; d++)
        at += left[d] * md->strides[d];
    return at;
}

/* Constants are laid out once, while a program is made or starts: of bytes, element by element will do. */
static dn_status reorder(dn_engine engine, const rg_md *from, const void *source, const rg_md *to, void *target,
                         const int64_t *dims, const int64_t *offsets)
{
    int64_t index[DN_MAX_NDIMS] = { 0 };
    const size_t bytes = from->data_type == DN_F32 || from->data_type == DN_S32 ? 4
                         : from->data_type == DN_U8 || from->data_type == DN_S8 ? 1
                                                                                : 0;
    int32_t d;

    (void)engine;
    if (bytes == 0 || from->data_type != to->data_type || from->ndims != to->ndims || from->kind != RG_BLOCKED ||
        to->kind != RG_BLOCKED)
        return DN_UNIMPLEMENTED;
    if (dims == NULL) {
        memset(target, 0, (size_t)rg_md_bytes(to)); /* what pads whole blocks */
        dims = from->dims;
    }
    for (d = 0; d < from->ndims; d++) {
        if (dims[d] == 0)
            return DN_SUCCESS;
        index[d] = offsets != NULL ? offsets[d] : 0;
    }
    if (rg_md_copy_part(from, source, to, target, dims, index))
        return DN_SUCCESS;
    do {
        memcpy((char *)target + (size_t)place_of(to, index) * bytes,
               (const char *)source + (size_t)place_of(from, index) * bytes, bytes);
        for (d = from->ndims; d-- > 0;) {
            const int64_t first = offsets != NULL ? offsets[d] : 0;

            if (++index[d] < first + dims[d])
                break;
            index[d] = first;
        }
    } while (d >= 0);
    return DN_SUCCESS;
}

/* By kernels of our own, in short chains: what is left of products where no weights are packed. */
static dn_status sgemm(bool a_turned, bool b_turned, int64_t m, int64_t n, int64_t k, const float *a, int64_t a_line,
                       const float *b, int64_t b_line, float *output, int64_t y_line)
{
    const sg_job job = { .kernel = sg_kernel_best(),
                         .m = m,
                         .n = n,
                         .k = k,
                         .chain = sg_chain(k, true),
                         .a = a,
                         .a_row = a_line,
                         .b = b,
                         .width = SG_WIDTH,
                         .b_panel = SG_WIDTH,
                         .b_step = b_line,
                         .c = output,
                         .c_row = y_line };

    if (a_turned || b_turned)
        return DN_UNIMPLEMENTED;
    if (m < 1 || n < 1)
        return DN_SUCCESS;
    if (k < 1) {
        for (int64_t row = 0; row < m; row++)
            memset(output + row * y_line, 0, (size_t)n * sizeof *output);
        return DN_SUCCESS;
    }
    sg_run(&job, 0, sg_units(&job));
    return DN_SUCCESS;
}

static bool has_isa(dn_isa isa)
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

static int opaque_words(const rg_md *md, int64_t *out, int most)
{
    (void)md, (void)out, (void)most;
    return 0;
}

static bool pack_winograd(const rg_state *state, const rg_md *plain, const void *source, const rg_md *md, void *target)
{
    (void)state, (void)plain, (void)source, (void)md, (void)target;
    return false;
}

const dn_library dn_none = {
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

const dn_library *dn_in_use = &dn_none;
