/* dn.h without oneDNN: the library makes no kernel, and the region compiler has its own loops alone. A region that
 * needs the library is INLAY_UNSUPPORTED when it is compiled. */
#include "region/build.h"

#define NOTHING(out) (*(out) = NULL, DN_UNIMPLEMENTED)

dn_status dn_describe(dn_engine engine, const dn_op *op, const dn_attr *attr, dn_description *out)
{
    (void)engine, (void)op, (void)attr;
    return NOTHING(out);
}

dn_status dn_describe_reorder(dn_engine engine, const rg_md *from, const rg_md *to, dn_description *out)
{
    (void)engine, (void)from, (void)to;
    return NOTHING(out);
}

dn_status dn_describe_concat(dn_engine engine, const rg_md *y, int axis, const rg_md *xs, uint32_t count,
                             dn_description *out)
{
    (void)engine, (void)y, (void)axis, (void)xs, (void)count;
    return NOTHING(out);
}

dn_status dn_clone(dn_description *out, dn_const_description pd)
{
    (void)pd;
    return NOTHING(out);
}

void dn_destroy(dn_description pd)
{
    (void)pd;
}

bool dn_knows(const rg_md *md)
{
    (void)md;
    return true;
}

const rg_md *dn_layout(dn_const_description pd, dn_operand which, rg_md *out)
{
    (void)pd, (void)which;
    *out = (rg_md){ 0 };
    return out;
}

const char *dn_name(dn_const_description pd)
{
    (void)pd;
    return "";
}

dn_status dn_engine_create(dn_engine *out)
{
    return NOTHING(out);
}

void dn_engine_destroy(dn_engine engine)
{
    (void)engine;
}

dn_status dn_stream_create(dn_engine engine, dn_stream *out)
{
    (void)engine;
    return NOTHING(out);
}

dn_status dn_stream_wait(dn_stream stream)
{
    (void)stream;
    return DN_UNIMPLEMENTED;
}

void dn_stream_destroy(dn_stream stream)
{
    (void)stream;
}

dn_status dn_primitive_create(dn_const_description pd, dn_primitive *out)
{
    (void)pd;
    return NOTHING(out);
}

dn_status dn_primitive_execute(dn_primitive primitive, dn_stream stream, uint32_t count, const dn_arg *args)
{
    (void)primitive, (void)stream, (void)count, (void)args;
    return DN_UNIMPLEMENTED;
}

void dn_primitive_destroy(dn_primitive primitive)
{
    (void)primitive;
}

dn_status dn_memory_create(dn_engine engine, const rg_md *md, void *data, dn_memory *out)
{
    (void)engine, (void)md, (void)data;
    return NOTHING(out);
}

dn_status dn_memory_move(dn_memory memory, void *data, dn_stream stream)
{
    (void)memory, (void)data, (void)stream;
    return DN_UNIMPLEMENTED;
}

void dn_memory_destroy(dn_memory memory)
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

/* Constants are laid out once, while a program is made or starts: element by element will do. */
dn_status dn_reorder(dn_engine engine, const rg_md *from, const void *source, const rg_md *to, void *target,
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

dn_status dn_sgemm(bool a_turned, bool b_turned, int64_t m, int64_t n, int64_t k, const float *a, int64_t a_line,
                   const float *b, int64_t b_line, float *y, int64_t y_line)
{
    (void)a_turned, (void)b_turned, (void)m, (void)n, (void)k, (void)a, (void)a_line, (void)b, (void)b_line, (void)y,
        (void)y_line;
    return DN_UNIMPLEMENTED;
}

bool dn_has_isa(dn_isa isa)
{
    (void)isa;
    return false;
}

uint64_t dn_version(void)
{
    return 0;
}

bool dn_has_winograd(void)
{
    return false;
}

int dn_opaque_words(const rg_md *md, int64_t *out, int most)
{
    (void)md, (void)out, (void)most;
    return 0;
}

bool rg_winograd_pack(const rg_state *state, const rg_md *plain, const void *source, const rg_md *md, void *target)
{
    (void)state, (void)plain, (void)source, (void)md, (void)target;
    return false;
}
