/* The body of an inference request over REST: JSON, followed by the tensors of the binary extension. */
#include "codecs/datatype.h"
#include "serve/request/infer.h"
#include "inlay/check.h"
#include "codecs/json.h"
#include <stdlib.h>
#include <string.h>

enum { NO_SIZE = -1 };

/* The members of an input, before its tensor is created. */
struct draft {
    json_text data;       /* a JSON value, not parsed yet; NULL = none */
    int64_t binary_bytes; /* NO_SIZE = not given */
    bool has_shape, has_dtype;
};

struct parse {
    json_reader reader;
    infer_request *request;
    struct draft *drafts; /* [input_count] */
    inlay_diag *diag;
    inlay_status status; /* errors other than JSON syntax */
};

#define REFUSE(parse, ...) ((parse)->status = inlay_fail((parse)->diag, INLAY_INVALID_ARGUMENT, __VA_ARGS__), false)

static bool read_name(struct parse *parse, const char **out)
{
    char *name = NULL;

    if (!reader_c_string(&parse->reader, &name))
        return false;
    *out = name;
    return true;
}

static bool read_uint(struct parse *parse, uint64_t *out)
{
    json_text number;

    return reader_number(&parse->reader, &number) &&
           (text_to_uint64(number, out) || reader_fail(&parse->reader, "expected a non-negative integer"));
}

static bool read_shape(struct parse *parse, infer_tensor *tensor)
{
    json_text number;

    if (!reader_open(&parse->reader, '['))
        return false;
    tensor->rank = 0;
    while (reader_element(&parse->reader)) {
        if (tensor->rank == INLAY_MAX_RANK)
            return reader_fail(&parse->reader, "a shape with more than 16 dimensions");
        if (!reader_number(&parse->reader, &number))
            return false;
        if (!text_to_int64(number, &tensor->dims[tensor->rank]) || tensor->dims[tensor->rank] < 0)
            return reader_fail(&parse->reader, "a dimension that is not a non-negative integer");
        tensor->rank++;
    }
    return parse->reader.error == NULL;
}

static bool read_dtype(struct parse *parse, infer_tensor *tensor)
{
    json_text name;

    if (!reader_string(&parse->reader, &name))
        return false;
    tensor->dtype = datatype_find(name.data, name.bytes);
    return tensor->dtype != INLAY_UNDEFINED ||
           REFUSE(parse,
                  "unknown datatype '%.*s'; the protocol has BOOL, INT8 to INT64, UINT8 to UINT64, FP16, BF16, "
                  "FP32, FP64, BYTES",
                  name.bytes < 40 ? (int)name.bytes : 40, name.data);
}

/* Reads a parameter of shared memory; *out_good: without error. false: it is another parameter. */
static bool read_region(struct parse *parse, json_text key, infer_region *region, bool *out_good)
{
    if (text_is(key, "shared_memory_region"))
        *out_good = read_name(parse, &region->name);
    else if (text_is(key, "shared_memory_offset"))
        *out_good = read_uint(parse, &region->offset);
    else if (text_is(key, "shared_memory_byte_size"))
        *out_good = read_uint(parse, &region->bytes);
    else
        return false;
    return true;
}

static bool read_input_parameters(struct parse *parse, infer_tensor *tensor, struct draft *draft)
{
    json_text key, ignored;
    uint64_t bytes;
    bool good;

    if (!reader_open(&parse->reader, '{'))
        return false;
    while (reader_member(&parse->reader, &key)) {
        if (read_region(parse, key, &tensor->region, &good)) {
            if (!good)
                return false;
        } else if (text_is(key, "binary_data_size")) {
            if (!read_uint(parse, &bytes) || bytes > INT64_MAX)
                return reader_fail(&parse->reader, "binary_data_size is not a number of bytes");
            draft->binary_bytes = (int64_t)bytes;
        } else if (!reader_skip(&parse->reader, &ignored)) {
            return false;
        }
    }
    return parse->reader.error == NULL;
}

static bool read_input(struct parse *parse, infer_tensor *tensor, struct draft *draft)
{
    json_text key, ignored;

    if (!reader_open(&parse->reader, '{'))
        return false;
    while (reader_member(&parse->reader, &key)) {
        bool good;

        if (text_is(key, "name"))
            good = read_name(parse, &tensor->name);
        else if (text_is(key, "shape"))
            good = draft->has_shape = read_shape(parse, tensor);
        else if (text_is(key, "datatype"))
            good = draft->has_dtype = read_dtype(parse, tensor);
        else if (text_is(key, "data"))
            good = reader_skip(&parse->reader, &draft->data);
        else if (text_is(key, "parameters"))
            good = read_input_parameters(parse, tensor, draft);
        else
            good = reader_skip(&parse->reader, &ignored);
        if (!good)
            return false;
    }
    return parse->reader.error == NULL;
}

static bool read_inputs(struct parse *parse)
{
    infer_request *request = parse->request;

    if (request->inputs != NULL)
        return reader_fail(&parse->reader, "\"inputs\" is given twice");
    if (!reader_open(&parse->reader, '['))
        return false;
    while (reader_element(&parse->reader)) {
        if (request->input_count == INFER_MAX_TENSORS)
            return REFUSE(parse, "more than %d inputs", INFER_MAX_TENSORS);
        if (!LIST_GROW(request->inputs, request->input_count) || !LIST_GROW(parse->drafts, request->input_count)) {
            parse->status = no_memory(parse->diag, "for the inputs");
            return false;
        }
        request->inputs[request->input_count] = (infer_tensor){ .name = NULL };
        parse->drafts[request->input_count] = (struct draft){ .binary_bytes = NO_SIZE };
        request->input_count++;
        if (!read_input(parse, &request->inputs[request->input_count - 1], &parse->drafts[request->input_count - 1]))
            return false;
    }
    return parse->reader.error == NULL;
}

static bool read_output_parameters(struct parse *parse, infer_wanted *wanted)
{
    json_text key, ignored;
    bool value, good;

    if (!reader_open(&parse->reader, '{'))
        return false;
    while (reader_member(&parse->reader, &key)) {
        if (read_region(parse, key, &wanted->region, &good)) {
            if (!good)
                return false;
            continue;
        }
        if (text_is(key, "classification"))
            return REFUSE(parse, "output parameter \"classification\" is not supported; request the tensor");
        if (text_is(key, "binary_data")) {
            if (!reader_bool(&parse->reader, &value))
                return false;
            wanted->binary = value;
        } else if (!reader_skip(&parse->reader, &ignored)) {
            return false;
        }
    }
    return parse->reader.error == NULL;
}

static bool read_outputs(struct parse *parse)
{
    infer_request *request = parse->request;
    json_text key, ignored;

    if (request->outputs != NULL)
        return reader_fail(&parse->reader, "\"outputs\" is given twice");
    if (!reader_open(&parse->reader, '['))
        return false;
    while (reader_element(&parse->reader)) {
        infer_wanted *wanted;

        if (request->output_count == INFER_MAX_TENSORS)
            return REFUSE(parse, "more than %d outputs", INFER_MAX_TENSORS);
        if (!LIST_GROW(request->outputs, request->output_count)) {
            parse->status = no_memory(parse->diag, "for the outputs");
            return false;
        }
        wanted = &request->outputs[request->output_count++];
        *wanted = (infer_wanted){ .binary = -1 };
        if (!reader_open(&parse->reader, '{'))
            return false;
        while (reader_member(&parse->reader, &key)) {
            if (!(text_is(key, "name")         ? read_name(parse, &wanted->name)
                  : text_is(key, "parameters") ? read_output_parameters(parse, wanted)
                                               : reader_skip(&parse->reader, &ignored)))
                return false;
        }
        if (parse->reader.error == NULL && wanted->name == NULL)
            return REFUSE(parse, "outputs[%u] has no name", request->output_count - 1);
        if (parse->reader.error == NULL && infer_repeats_output(request))
            return REFUSE(parse, "output '%s' is requested twice", wanted->name);
    }
    return parse->reader.error == NULL;
}

/* Reads a number or a text; 0 and "" mean none. */
static bool read_sequence(struct parse *parse)
{
    json_text id;
    bool text = reader_peek(&parse->reader) == '"';

    if (!(text ? reader_string(&parse->reader, &id) : reader_number(&parse->reader, &id)))
        return false;
    if (!infer_set_sequence(parse->request, id.data, id.bytes))
        return REFUSE(parse, "sequence_id must be a number, or a text of at most %d bytes", SEQUENCE_ID_BYTES - 1);
    return true;
}

static bool read_parameters(struct parse *parse)
{
    json_text key, ignored;

    if (!reader_open(&parse->reader, '{'))
        return false;
    while (reader_member(&parse->reader, &key)) {
        bool good;

        if (text_is(key, "sequence_id"))
            good = read_sequence(parse);
        else if (text_is(key, "sequence_start"))
            good = reader_bool(&parse->reader, &parse->request->sequence_start);
        else if (text_is(key, "sequence_end"))
            good = reader_bool(&parse->reader, &parse->request->sequence_end);
        else if (text_is(key, "binary_data_output"))
            good = reader_bool(&parse->reader, &parse->request->binary_output);
        else if (text_is(key, "timeout"))
            good = read_uint(parse, &parse->request->timeout_us);
        else if (text_is(key, "priority"))
            good = read_uint(parse, &parse->request->priority);
        else
            good = reader_skip(&parse->reader, &ignored);
        if (!good)
            return false;
    }
    return parse->reader.error == NULL;
}

static bool read_request(struct parse *parse)
{
    json_text key, ignored;

    if (!reader_open(&parse->reader, '{'))
        return false;
    while (reader_member(&parse->reader, &key)) {
        if (!(text_is(key, "inputs")       ? read_inputs(parse)
              : text_is(key, "outputs")    ? read_outputs(parse)
              : text_is(key, "parameters") ? read_parameters(parse)
              : text_is(key, "id")         ? read_name(parse, &parse->request->id)
                                           : reader_skip(&parse->reader, &ignored)))
            return false;
    }
    return reader_end(&parse->reader);
}

static inlay_status check_draft(const infer_request *request, uint32_t i, const struct draft *draft, inlay_diag *diag)
{
    const infer_tensor *tensor = &request->inputs[i];

    if (tensor->name == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inputs[%u] has no name", i);
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(request->inputs[k].name, tensor->name) == 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' is given twice", tensor->name);
    if (!draft->has_shape || !draft->has_dtype)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' has no %s", tensor->name,
                          draft->has_shape ? "datatype" : "shape");
    if (tensor->region.name != NULL)
        return draft->data.data == NULL && draft->binary_bytes == NO_SIZE
                   ? INLAY_OK
                   : inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                                "input '%s' has data and a shared_memory_region; send one", tensor->name);
    if ((draft->data.data == NULL) == (draft->binary_bytes == NO_SIZE))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          draft->data.data == NULL ? "input '%s' has neither data nor a binary_data_size"
                                                   : "input '%s' has data and a binary_data_size; send one",
                          tensor->name);
    return INLAY_OK;
}

static inlay_status set_json(infer_request *request, infer_tensor *tensor, json_text data, inlay_diag *diag)
{
    uint64_t bytes = tensor->count * datatype_bytes(tensor->dtype);

    /* Each element has at least one character, so that a large shape with little data allocates no memory. */
    if (tensor->count > data.bytes)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' has fewer elements than its shape", tensor->name);
    tensor->data = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (tensor->data == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "input '%s': out of memory for %llu bytes", tensor->name,
                          (unsigned long long)bytes);
    tensor->owned = true;
    tensor->bytes = bytes;
    tensor->is_text = tensor->dtype == INLAY_STRING;
    request->copied_bytes += bytes;
    return datatype_read_json(data, tensor->dtype, tensor->count, tensor->data, tensor->name, diag);
}

/* Sets the elements of each input: from its JSON, or the next bytes of the binary data. */
static inlay_status make_tensors(infer_request *request, const struct draft *drafts, char *binary,
                                 uint64_t binary_bytes, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    uint64_t used = 0;

    for (uint32_t i = 0; status == INLAY_OK && i < request->input_count; i++) {
        infer_tensor *tensor = &request->inputs[i];
        const struct draft *draft = &drafts[i];

        status = check_draft(request, i, draft, diag);
        if (status != INLAY_OK)
            break;
        if (!infer_count(tensor->rank, tensor->dims, &tensor->count)) {
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s': the shape is too large", tensor->name);
        } else if (tensor->region.name != NULL) {
            continue;
        } else if (draft->data.data != NULL) {
            status = set_json(request, tensor, draft->data, diag);
        } else if ((uint64_t)draft->binary_bytes > binary_bytes - used) {
            status =
                inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                           "input '%s' has binary_data_size %lld, but only %llu bytes of binary data are left",
                           tensor->name, (long long)draft->binary_bytes, (unsigned long long)(binary_bytes - used));
        } else {
            INLAY_CHECK(used <= binary_bytes);
            status = infer_set_raw(request, tensor, binary + used, (uint64_t)draft->binary_bytes, diag);
            used += (uint64_t)draft->binary_bytes;
        }
    }
    if (status == INLAY_OK && used != binary_bytes)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%llu bytes of binary data belong to no input",
                            (unsigned long long)(binary_bytes - used));
    return status;
}

inlay_status infer_parse_rest(char *body, size_t bytes, size_t header_bytes, infer_request *out_request,
                              inlay_diag *diag)
{
    struct parse parse;

    parse.request = out_request;
    parse.drafts = NULL;
    parse.diag = diag;
    parse.status = INLAY_OK;
    *out_request = (infer_request){ .id = "" };
    if (header_bytes > bytes)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "Inference-Header-Content-Length is %zu, but the body has %zu bytes", header_bytes, bytes);
    reader_begin(&parse.reader, body, header_bytes);
    if (!read_request(&parse) && parse.status == INLAY_OK)
        parse.status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the request's JSON, byte %zu: %s",
                                  (size_t)(parse.reader.at - parse.reader.start), parse.reader.error);
    if (parse.status == INLAY_OK && out_request->input_count == 0)
        parse.status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the request has no inputs");
    if (parse.status == INLAY_OK)
        parse.status = make_tensors(out_request, parse.drafts, body + header_bytes, bytes - header_bytes, diag);
    free(parse.drafts);
    if (parse.status != INLAY_OK)
        infer_request_deinit(out_request);
    return parse.status;
}
