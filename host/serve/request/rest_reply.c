/* The body of a reply over REST: JSON, followed by the outputs requested as binary data. */
#include "codecs/datatype.h"
#include "serve/request/infer.h"
#include <string.h>

static bool is_binary(const infer_request *request, uint32_t i)
{
    int binary = i < request->output_count ? request->outputs[i].binary : -1;

    return binary < 0 ? request->binary_output : binary > 0;
}

/* The region into which output i was written; NULL: none. */
static const infer_region *region_of(const infer_request *request, uint32_t i)
{
    return i < request->output_count && request->outputs[i].region.name != NULL ? &request->outputs[i].region : NULL;
}

static void write_region(struct strbuf *out, const infer_region *region)
{
    strbuf_text(out, ",\"parameters\":{\"shared_memory_region\":");
    strbuf_json(out, region->name, strlen(region->name));
    strbuf_text(out, ",\"shared_memory_offset\":");
    strbuf_uint(out, region->offset);
    strbuf_text(out, ",\"shared_memory_byte_size\":");
    strbuf_uint(out, region->bytes);
    strbuf_text(out, "}}");
}

static inlay_status write_output(const infer_output *output, const infer_region *region, bool binary,
                                 struct strbuf *out, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    if (datatype_name(output->dtype) == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "output '%s' has type %s, which the protocol does not have",
                          output->name, inlay_dtype_name(output->dtype));
    strbuf_text(out, "{\"name\":");
    strbuf_json(out, output->name, strlen(output->name));
    strbuf_text(out, ",\"datatype\":\"");
    strbuf_text(out, datatype_name(output->dtype));
    strbuf_text(out, "\",\"shape\":[");
    for (uint32_t i = 0; i < output->rank; i++) {
        if (i > 0)
            strbuf_add(out, ",", 1);
        strbuf_int(out, output->dims[i]);
    }
    strbuf_text(out, "]");
    if (region != NULL) {
        write_region(out, region);
    } else if (binary) {
        strbuf_text(out, ",\"parameters\":{\"binary_data_size\":");
        strbuf_uint(out, datatype_raw_bytes(output->dtype, output->count, output->data));
        strbuf_text(out, "}}");
    } else {
        strbuf_text(out, ",\"data\":[");
        status = datatype_write_json(out, output->dtype, output->count, output->data, output->name, diag);
        strbuf_text(out, "]}");
    }
    return status;
}

/* The parameters of a reply of a model package: the variant that ran, and its error. */
static void write_variant(struct strbuf *out, const infer_source *source)
{
    strbuf_text(out, ",\"parameters\":{\"variant\":");
    strbuf_json(out, source->variant, strlen(source->variant));
    if (source->variant_error >= 0)
        strbuf_format(out, ",\"variant_error\":%.9g", source->variant_error);
    strbuf_text(out, "}");
}

inlay_status infer_write_rest(const infer_request *request, const infer_source *source, const infer_output *outputs,
                              uint32_t output_count, struct strbuf *out, size_t *out_header_bytes, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    bool any = false;

    *out_header_bytes = 0;
    strbuf_text(out, "{\"model_name\":");
    strbuf_json(out, source->model, strlen(source->model));
    strbuf_text(out, ",\"model_version\":");
    strbuf_json(out, source->version, strlen(source->version));
    if (request->id[0] != '\0') {
        strbuf_text(out, ",\"id\":");
        strbuf_json(out, request->id, strlen(request->id));
    }
    if (source->variant != NULL)
        write_variant(out, source);
    strbuf_text(out, ",\"outputs\":[");
    for (uint32_t i = 0; status == INLAY_OK && i < output_count; i++) {
        if (i > 0)
            strbuf_add(out, ",", 1);
        status = write_output(&outputs[i], region_of(request, i), is_binary(request, i), out, diag);
    }
    strbuf_text(out, "]}");
    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < output_count; i++) {
        if (!is_binary(request, i) || region_of(request, i) != NULL)
            continue;
        if (!any)
            *out_header_bytes = out->size;
        any = true;
        datatype_write_raw(out, outputs[i].dtype, outputs[i].count, outputs[i].data);
    }
    return out->failed ? no_memory(diag, "for the reply") : INLAY_OK;
}
