/* The table of functions for the region compiler, and those functions that are the same for all versions of oneDNN. */
#include "onednn/library_versions.h"
#include "inlay/check.h"
#include <oneapi/dnnl/dnnl.h>
#include <stddef.h>

/* ------------------------------------------------------------------ calls */

library_status onednn_clone(library_description *out, library_const_description pd)
{
    return library_status_of(dnnl_primitive_desc_clone(out, pd));
}

void onednn_destroy(library_description pd)
{
    if (pd != NULL)
        (void)dnnl_primitive_desc_destroy(pd);
}

const char *onednn_name(library_const_description pd)
{
    const char *name = NULL;

    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name) == dnnl_success && name != NULL
               ? name
               : "";
}

library_status onednn_stream_create(library_engine engine, library_stream *out)
{
    return library_status_of(dnnl_stream_create(out, engine, dnnl_stream_default_flags));
}

library_status onednn_stream_wait(library_stream stream)
{
    return library_status_of(dnnl_stream_wait(stream));
}

void onednn_stream_destroy(library_stream stream)
{
    if (stream != NULL)
        (void)dnnl_stream_destroy(stream);
}

library_status onednn_primitive_create(library_const_description pd, library_primitive *out)
{
    return library_status_of(dnnl_primitive_create(out, pd));
}

int onednn_operand_number(int id)
{
    INLAY_CHECK(id > 0);
    if (id >= LIBRARY_ARG_POST(0))
        return DNNL_ARG_ATTR_MULTIPLE_POST_OP(id / LIBRARY_ARG_POST(0) - 1) | id % LIBRARY_ARG_POST(0);
    if ((id & LIBRARY_ARG_ATTR_ZERO_POINTS) != 0)
        return DNNL_ARG_ATTR_ZERO_POINTS | (id & ~LIBRARY_ARG_ATTR_ZERO_POINTS);
    return id;
}

library_status onednn_primitive_execute(library_primitive primitive, library_stream stream, uint32_t count,
                                        const library_arg *args)
{
    return library_status_of(dnnl_primitive_execute(primitive, stream, (int)count, (const void *)args));
}

void onednn_primitive_destroy(library_primitive primitive)
{
    if (primitive != NULL)
        (void)dnnl_primitive_destroy(primitive);
}

void onednn_memory_destroy(library_memory memory)
{
    if (memory != NULL)
        (void)dnnl_memory_destroy(memory);
}

library_status onednn_reorder(library_engine engine, const memory_desc *from, const void *source, const memory_desc *to,
                              void *target, const int64_t *dims, const int64_t *offsets)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_memory_t in = NULL, out = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_status_t code = library_describe_part(engine, from, to, dims, offsets, &pd);

    if (code == dnnl_success)
        code = dnnl_primitive_create(&primitive, pd);
    if (code == dnnl_success)
        code = library_memory_of(pd, dnnl_query_src_md, engine, (void *)(uintptr_t)source, &in);
    if (code == dnnl_success)
        code = library_memory_of(pd, dnnl_query_dst_md, engine, target, &out);
    if (code == dnnl_success)
        code = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    if (code == dnnl_success) {
        const dnnl_exec_arg_t args[] = { { DNNL_ARG_FROM, in }, { DNNL_ARG_TO, out } };

        code = dnnl_primitive_execute(primitive, stream, 2, args);
        if (code == dnnl_success)
            code = dnnl_stream_wait(stream);
    }
    onednn_stream_destroy(stream);
    onednn_memory_destroy(out);
    onednn_memory_destroy(in);
    onednn_primitive_destroy(primitive);
    onednn_destroy(pd);
    return library_status_of(code);
}

library_status onednn_engine_create(library_engine *out)
{
    dnnl_status_t code = dnnl_engine_create(out, dnnl_cpu, 0);

    if (code == dnnl_success)
        library_opaque_open();
    return library_status_of(code);
}

dnnl_status_t library_memory_of(const_dnnl_primitive_desc_t pd, dnnl_query_t which, dnnl_engine_t engine, void *data,
                                dnnl_memory_t *out)
{
    INLAY_CHECK(pd != NULL);
    return dnnl_memory_create(out, dnnl_primitive_desc_query_md(pd, which, 0), engine, data);
}

library_status onednn_describe_reorder(library_engine engine, const memory_desc *from, const memory_desc *to,
                                       library_description *out)
{
    return library_status_of(library_describe_part(engine, from, to, NULL, NULL, out));
}

library_status onednn_sgemm(bool a_transposed, bool b_transposed, int64_t m, int64_t n, int64_t k, const float *a,
                            int64_t a_line, const float *b, int64_t b_line, float *output, int64_t y_line)
{
    return library_status_of(dnnl_sgemm(a_transposed ? 'T' : 'N', b_transposed ? 'T' : 'N', m, n, k, 1, a, a_line, b,
                                        b_line, 0, output, y_line));
}

bool onednn_has_isa(library_isa isa)
{
    const unsigned wanted = isa == LIBRARY_ISA_AVX512_VNNI ? (unsigned)dnnl_cpu_isa_avx512_core_vnni
                                                           : (unsigned)dnnl_cpu_isa_avx512_core_bf16;

    return ((unsigned)dnnl_get_effective_cpu_isa() & wanted) == wanted;
}

uint64_t onednn_version(void)
{
    const dnnl_version_t *version = dnnl_version();

    return version == NULL ? 0
                           : (uint64_t)version->major << 48 | (uint64_t)version->minor << 32 | (uint64_t)version->patch;
}

/* ------------------------------------------------------------------ the table */

const primitive_library onednn_table = {
    .title = "oneDNN",
    .convolution_speed = 0.92,
    .thin_speed = 1.7,
    .product_speed = 0.87,
    .describe = onednn_describe,
    .describe_reorder = onednn_describe_reorder,
    .describe_concat = onednn_describe_concat,
    .clone = onednn_clone,
    .destroy = onednn_destroy,
    .knows = onednn_knows,
    .layout = onednn_layout,
    .name = onednn_name,
    .engine_create = onednn_engine_create,
    .engine_destroy = onednn_engine_destroy,
    .stream_create = onednn_stream_create,
    .stream_wait = onednn_stream_wait,
    .stream_destroy = onednn_stream_destroy,
    .primitive_create = onednn_primitive_create,
    .operand_number = onednn_operand_number,
    .primitive_execute = onednn_primitive_execute,
    .primitive_destroy = onednn_primitive_destroy,
    .memory_create = onednn_memory_create,
    .memory_move = onednn_memory_move,
    .memory_destroy = onednn_memory_destroy,
    .reorder = onednn_reorder,
    .sgemm = onednn_sgemm,
    .has_isa = onednn_has_isa,
    .version = onednn_version,
    .has_winograd = onednn_has_winograd,
    .opaque_words = onednn_opaque_words,
    .pack_winograd = onednn_pack_winograd,
};
