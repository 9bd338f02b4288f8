/* What is alike in all versions of the library. */
#include "dn_versions.h"
#include <oneapi/dnnl/dnnl.h>

dnnl_status_t dn_clone(dnnl_primitive_desc_t *out, const_dnnl_primitive_desc_t pd)
{
    return dnnl_primitive_desc_clone(out, pd);
}

void dn_destroy(dnnl_primitive_desc_t pd)
{
    if (pd != NULL)
        (void)dnnl_primitive_desc_destroy(pd);
}

const char *dn_name(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;

    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name) == dnnl_success && name != NULL
               ? name
               : "";
}

dnnl_status_t dn_stream_create(dnnl_engine_t engine, dnnl_stream_t *out)
{
    return dnnl_stream_create(out, engine, dnnl_stream_default_flags);
}

dnnl_status_t dn_stream_wait(dnnl_stream_t stream)
{
    return dnnl_stream_wait(stream);
}

void dn_stream_destroy(dnnl_stream_t stream)
{
    if (stream != NULL)
        (void)dnnl_stream_destroy(stream);
}

dnnl_status_t dn_primitive_create(const_dnnl_primitive_desc_t pd, dnnl_primitive_t *out)
{
    return dnnl_primitive_create(out, pd);
}

dnnl_status_t dn_primitive_execute(dnnl_primitive_t primitive, dnnl_stream_t stream, uint32_t count,
                                   const dnnl_exec_arg_t *args)
{
    return dnnl_primitive_execute(primitive, stream, (int)count, args);
}

void dn_primitive_destroy(dnnl_primitive_t primitive)
{
    if (primitive != NULL)
        (void)dnnl_primitive_destroy(primitive);
}

void dn_memory_destroy(dnnl_memory_t memory)
{
    if (memory != NULL)
        (void)dnnl_memory_destroy(memory);
}

dnnl_status_t dn_reorder(dnnl_engine_t engine, const rg_md *from, const void *source, const rg_md *to, void *target,
                         const int64_t *dims, const int64_t *offsets)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_memory_t in = NULL, out = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_status_t code = dn_describe_part(engine, from, to, dims, offsets, &pd);

    if (code == dnnl_success)
        code = dnnl_primitive_create(&primitive, pd);
    if (code == dnnl_success)
        code = dn_memory_of(pd, dnnl_query_src_md, engine, (void *)(uintptr_t)source, &in);
    if (code == dnnl_success)
        code = dn_memory_of(pd, dnnl_query_dst_md, engine, target, &out);
    if (code == dnnl_success)
        code = dn_stream_create(engine, &stream);
    if (code == dnnl_success) {
        const dnnl_exec_arg_t args[] = { { DNNL_ARG_FROM, in }, { DNNL_ARG_TO, out } };

        code = dnnl_primitive_execute(primitive, stream, 2, args);
        if (code == dnnl_success)
            code = dnnl_stream_wait(stream);
    }
    dn_stream_destroy(stream);
    dn_memory_destroy(out);
    dn_memory_destroy(in);
    dn_primitive_destroy(primitive);
    dn_destroy(pd);
    return code;
}

dnnl_status_t dn_engine_create(dnnl_engine_t *out)
{
    dnnl_status_t code = dnnl_engine_create(out, dnnl_cpu, 0);

    if (code == dnnl_success)
        dn_opaque_open();
    return code;
}

dnnl_status_t dn_memory_of(const_dnnl_primitive_desc_t pd, dnnl_query_t which, dnnl_engine_t engine, void *data,
                           dnnl_memory_t *out)
{
    return dnnl_memory_create(out, dnnl_primitive_desc_query_md(pd, which, 0), engine, data);
}

dnnl_status_t dn_describe_reorder(dnnl_engine_t engine, const rg_md *from, const rg_md *to, dnnl_primitive_desc_t *out)
{
    return dn_describe_part(engine, from, to, NULL, NULL, out);
}

dnnl_status_t dn_sgemm(bool a_turned, bool b_turned, int64_t m, int64_t n, int64_t k, const float *a, int64_t a_line,
                       const float *b, int64_t b_line, float *y, int64_t y_line)
{
    return dnnl_sgemm(a_turned ? 'T' : 'N', b_turned ? 'T' : 'N', m, n, k, 1, a, a_line, b, b_line, 0, y, y_line);
}

bool dn_has_isa(dnnl_cpu_isa_t isa)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & (unsigned)isa) == (unsigned)isa;
}

uint64_t dn_version(void)
{
    const dnnl_version_t *v = dnnl_version();

    return v == NULL ? 0 : (uint64_t)v->major << 48 | (uint64_t)v->minor << 32 | (uint64_t)v->patch;
}
