/* The body of an inference request over REST: JSON, and the tensors of the binary extension behind it. */
#include "serve/datatype.h"
#include "serve/infer.h"
#include "serve/json.h"
#include <stdlib.h>
#include <string.h>

enum { NO_SIZE = -1 };

/* What an input says before its tensor is made. */
struct draft {
    json_text data;       /* a JSON value, not yet read; NULL = none */
    int64_t binary_bytes; /* NO_SIZE = none */
    bool has_shape, has_dtype;
};

struct parse {
    json_reader r;
    infer_request *request;
    struct draft *drafts; /* [input_count] */
    inlay_diag *diag;
    inlay_status status; /* what is wrong beyond the JSON itself */
};

#define REFUSE(p, ...) ((p)->status = inlay_fail((p)->diag, INLAY_INVALID_ARGUMENT, __VA_ARGS__), false)

static bool read_name(struct parse *p, const char **out)
{
    char *name = NULL;

    if (!reader_c_string(&p->r, &name))
        return false;
    *out = name;
    return true;
}

static bool read_uint(struct parse *p, uint64_t *out)
{
    json_text number;

    return reader_number(&p->r, &number) &&
           (text_to_uint64(number, out) || reader_fail(&p->r, "expected a whole number"));
}

static bool read_shape(struct parse *p, infer_tensor *t)
{
    json_text number;

    if (!reader_open(&p->r, '['))
        return false;
    t->rank = 0;
    while (reader_element(&p->r)) {
        if (t->rank == INLAY_MAX_RANK)
            return reader_fail(&p->r, "a shape of more than 16 dimensions");
        if (!reader_number(&p->r, &number))
            return false;
        if (!text_to_int64(number, &t->dims[t->rank]) || t->dims[t->rank] < 0)
            return reader_fail(&p->r, "a size in a shape that is no whole number");
        t->rank++;
    }
    return p->r.error == NULL;
}

static bool read_dtype(struct parse *p, infer_tensor *t)
{
    json_text name;

    if (!reader_string(&p->r, &name))
        return false;
    t->dtype = datatype_find(name.data, name.bytes);
    return t->dtype != INLAY_UNDEFINED ||
           REFUSE(p,
                  "datatype '%.*s' is not known; the protocol has BOOL, INT8 to INT64, UINT8 to UINT64, FP16, BF16, "
                  "FP32, FP64, BYTES",
                  name.bytes < 40 ? (int)name.bytes : 40, name.data);
}

static bool refused_parameter(json_text key)
{
    return key.bytes >= 13 && memcmp(key.data, "shared_memory", 13) == 0;
}

static bool read_input_parameters(struct parse *p, struct draft *d)
{
    json_text key, ignored;
    uint64_t bytes;

    if (!reader_open(&p->r, '{'))
        return false;
    while (reader_member(&p->r, &key)) {
        if (refused_parameter(key))
            return REFUSE(p, "shared memory is not supported; send tensors in the request");
        if (text_is(key, "binary_data_size")) {
            if (!read_uint(p, &bytes) || bytes > INT64_MAX)
                return reader_fail(&p->r, "binary_data_size is no number of bytes");
            d->binary_bytes = (int64_t)bytes;
        } else if (!reader_skip(&p->r, &ignored)) {
            return false;
        }
    }
    return p->r.error == NULL;
}

static bool read_input(struct parse *p, infer_tensor *t, struct draft *d)
{
    json_text key, ignored;

    if (!reader_open(&p->r, '{'))
        return false;
    while (reader_member(&p->r, &key)) {
        bool good;

        if (text_is(key, "name"))
            good = read_name(p, &t->name);
        else if (text_is(key, "shape"))
            good = d->has_shape = read_shape(p, t);
        else if (text_is(key, "datatype"))
            good = d->has_dtype = read_dtype(p, t);
        else if (text_is(key, "data"))
            good = reader_skip(&p->r, &d->data);
        else if (text_is(key, "parameters"))
            good = read_input_parameters(p, d);
        else
            good = reader_skip(&p->r, &ignored);
        if (!good)
            return false;
    }
    return p->r.error == NULL;
}

static bool read_inputs(struct parse *p)
{
    infer_request *q = p->request;

    if (q->inputs != NULL)
        return reader_fail(&p->r, "\"inputs\" twice");
    if (!reader_open(&p->r, '['))
        return false;
    while (reader_element(&p->r)) {
        if (q->input_count == INFER_MAX_TENSORS)
            return REFUSE(p, "more than %d inputs", INFER_MAX_TENSORS);
        if (!LIST_GROW(q->inputs, q->input_count) || !LIST_GROW(p->drafts, q->input_count)) {
            p->status = no_memory(p->diag, "for the inputs");
            return false;
        }
        q->inputs[q->input_count] = (infer_tensor){ .name = NULL };
        p->drafts[q->input_count] = (struct draft){ .binary_bytes = NO_SIZE };
        q->input_count++;
        if (!read_input(p, &q->inputs[q->input_count - 1], &p->drafts[q->input_count - 1]))
            return false;
    }
    return p->r.error == NULL;
}

static bool read_output_parameters(struct parse *p, infer_wanted *w)
{
    json_text key, ignored;
    bool value;

    if (!reader_open(&p->r, '{'))
        return false;
    while (reader_member(&p->r, &key)) {
        if (refused_parameter(key))
            return REFUSE(p, "shared memory is not supported; outputs come in the answer");
        if (text_is(key, "classification"))
            return REFUSE(p, "output parameter \"classification\" is not supported; ask for the tensor");
        if (text_is(key, "binary_data")) {
            if (!reader_bool(&p->r, &value))
                return false;
            w->binary = value;
        } else if (!reader_skip(&p->r, &ignored)) {
            return false;
        }
    }
    return p->r.error == NULL;
}

static bool read_outputs(struct parse *p)
{
    infer_request *q = p->request;
    json_text key, ignored;

    if (q->outputs != NULL)
        return reader_fail(&p->r, "\"outputs\" twice");
    if (!reader_open(&p->r, '['))
        return false;
    while (reader_element(&p->r)) {
        infer_wanted *w;

        if (q->output_count == INFER_MAX_TENSORS)
            return REFUSE(p, "more than %d outputs", INFER_MAX_TENSORS);
        if (!LIST_GROW(q->outputs, q->output_count)) {
            p->status = no_memory(p->diag, "for the outputs");
            return false;
        }
        w = &q->outputs[q->output_count++];
        *w = (infer_wanted){ .binary = -1 };
        if (!reader_open(&p->r, '{'))
            return false;
        while (reader_member(&p->r, &key)) {
            if (!(text_is(key, "name")         ? read_name(p, &w->name)
                  : text_is(key, "parameters") ? read_output_parameters(p, w)
                                               : reader_skip(&p->r, &ignored)))
                return false;
        }
        if (p->r.error == NULL && w->name == NULL)
            return REFUSE(p, "outputs[%u] has no name", q->output_count - 1);
    }
    return p->r.error == NULL;
}

/* A number or a text; 0 and "" are none. */
static bool read_sequence(struct parse *p)
{
    json_text id;
    bool text = reader_peek(&p->r) == '"';

    if (!(text ? reader_string(&p->r, &id) : reader_number(&p->r, &id)))
        return false;
    if (!infer_set_sequence(p->request, id.data, id.bytes))
        return REFUSE(p, "sequence_id is a number, or a text of at most %d bytes", SEQUENCE_ID_BYTES - 1);
    return true;
}

static bool read_parameters(struct parse *p)
{
    json_text key, ignored;

    if (!reader_open(&p->r, '{'))
        return false;
    while (reader_member(&p->r, &key)) {
        bool good;

        if (text_is(key, "sequence_id"))
            good = read_sequence(p);
        else if (text_is(key, "sequence_start"))
            good = reader_bool(&p->r, &p->request->sequence_start);
        else if (text_is(key, "sequence_end"))
            good = reader_bool(&p->r, &p->request->sequence_end);
        else if (text_is(key, "binary_data_output"))
            good = reader_bool(&p->r, &p->request->binary_output);
        else if (text_is(key, "timeout"))
            good = read_uint(p, &p->request->timeout_us);
        else if (text_is(key, "priority"))
            good = read_uint(p, &p->request->priority);
        else
            good = reader_skip(&p->r, &ignored);
        if (!good)
            return false;
    }
    return p->r.error == NULL;
}

static bool read_request(struct parse *p)
{
    json_text key, ignored;

    if (!reader_open(&p->r, '{'))
        return false;
    while (reader_member(&p->r, &key)) {
        if (!(text_is(key, "inputs")       ? read_inputs(p)
              : text_is(key, "outputs")    ? read_outputs(p)
              : text_is(key, "parameters") ? read_parameters(p)
              : text_is(key, "id")         ? read_name(p, &p->request->id)
                                           : reader_skip(&p->r, &ignored)))
            return false;
    }
    return reader_end(&p->r);
}

/* ------------------------------------------------------------------ tensors */

static inlay_status check_draft(const infer_request *q, uint32_t i, const struct draft *d, inlay_diag *diag)
{
    const infer_tensor *t = &q->inputs[i];

    if (t->name == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inputs[%u] has no name", i);
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(q->inputs[k].name, t->name) == 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' is there twice", t->name);
    if (!d->has_shape || !d->has_dtype)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' has no %s", t->name,
                          d->has_shape ? "datatype" : "shape");
    if ((d->data.data == NULL) == (d->binary_bytes == NO_SIZE))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          d->data.data == NULL ? "input '%s' has neither data nor a binary_data_size"
                                               : "input '%s' has data and a binary_data_size; send one",
                          t->name);
    return INLAY_OK;
}

static inlay_status set_json(infer_request *q, infer_tensor *t, json_text data, inlay_diag *diag)
{
    uint64_t bytes = t->count * datatype_bytes(t->dtype);

    /* No element without a character, so that a large shape with little data takes no memory. */
    if (t->count > data.bytes)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' has fewer elements than its shape", t->name);
    t->data = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (t->data == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "input '%s': no memory for %llu bytes", t->name,
                          (unsigned long long)bytes);
    t->owned = true;
    t->bytes = bytes;
    q->copied_bytes += bytes;
    return datatype_read_json(data, t->dtype, t->count, t->data, t->name, diag);
}

/* Gives each input its elements: from JSON, or the next bytes behind it. */
static inlay_status make_tensors(infer_request *q, const struct draft *drafts, char *binary, uint64_t binary_bytes,
                                 inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    uint64_t used = 0;

    for (uint32_t i = 0; status == INLAY_OK && i < q->input_count; i++) {
        infer_tensor *t = &q->inputs[i];
        const struct draft *d = &drafts[i];

        status = check_draft(q, i, d, diag);
        if (status != INLAY_OK)
            break;
        if (!infer_count(t->rank, t->dims, &t->count)) {
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s': no tensor has a shape that large", t->name);
        } else if (d->data.data != NULL) {
            status = set_json(q, t, d->data, diag);
        } else if ((uint64_t)d->binary_bytes > binary_bytes - used) {
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                                "input '%s' has binary_data_size %lld, but only %llu bytes are left behind the JSON",
                                t->name, (long long)d->binary_bytes, (unsigned long long)(binary_bytes - used));
        } else {
            status = infer_set_raw(q, t, binary + used, (uint64_t)d->binary_bytes, diag);
            used += (uint64_t)d->binary_bytes;
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
    struct parse p = { .request = out_request, .diag = diag, .status = INLAY_OK };

    *out_request = (infer_request){ .id = "" };
    if (header_bytes > bytes)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "Inference-Header-Content-Length is %zu, but the body has %zu bytes", header_bytes, bytes);
    p.r = reader_begin(body, header_bytes);
    if (!read_request(&p) && p.status == INLAY_OK)
        p.status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the request's JSON, byte %zu: %s",
                              (size_t)(p.r.at - p.r.start), p.r.error);
    if (p.status == INLAY_OK && out_request->input_count == 0)
        p.status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the request has no inputs");
    if (p.status == INLAY_OK)
        p.status = make_tensors(out_request, p.drafts, body + header_bytes, bytes - header_bytes, diag);
    free(p.drafts);
    if (p.status != INLAY_OK)
        infer_request_deinit(out_request);
    return p.status;
}
