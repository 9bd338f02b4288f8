/* POST /v2/models/NAME[/versions/VERSION]/infer */
#include "serve/exchange/request_infer.h"
#include "serve/model/files.h"
#include "serve/routes/answers.h"
#include <string.h>
#include <strings.h>

static struct exchange *exchange_of_request(struct request *request)
{
    return (struct exchange *)(void *)request; /* its first member */
}

static void fail(struct request *request, const inlay_diag *diag, bool is_busy)
{
    struct exchange *exchange = exchange_of_request(request);

    exchange_fail_diag(exchange, diag);
    if (is_busy)
        exchange->code = HTTP_TOO_MANY_REQUESTS;
}

static inlay_status put_results(struct request *request, const infer_output *outputs, uint32_t count, inlay_diag *diag)
{
    struct exchange *exchange = exchange_of_request(request);
    const struct job *job = &request->job;
    const infer_source source = { .model = job->model->name,
                                  .version = job->model->version,
                                  .variant = job->run.variant,
                                  .variant_error = job->run.variant_error };
    inlay_status status = infer_write_rest(&request->infer, &source, outputs, count, &exchange->reply,
                                           &exchange->reply_json_bytes, diag);

    if (status != INLAY_OK)
        return status;
    exchange->code = HTTP_OK;
    if (exchange->reply_json_bytes > 0)
        exchange->type = "application/octet-stream";
    exchange_encode(exchange);
    return INLAY_OK;
}

/* Whether the body is a file instead of JSON. */
static bool is_file(const struct exchange *exchange)
{
    const char *type = exchange_field_get(exchange, FIELD_CONTENT_TYPE);

    return type != NULL && (strncasecmp(type, "image/", 6) == 0 || strncasecmp(type, "audio/", 6) == 0);
}

static bool reads_files(const struct model *model)
{
    return model->io.input_count == 1 && files_is_list(&model->io.inputs[0]);
}

static inlay_status read_file(struct exchange *exchange, inlay_diag *diag)
{
    const struct model *model = exchange->request.job.model;

    if (!reads_files(model))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the body is %.40s, but model '%s' does not read files; send tensors as JSON",
                          exchange_field_get(exchange, FIELD_CONTENT_TYPE), model->name);
    return infer_set_body(&exchange->request.infer, &model->io.inputs[0], true, exchange->body, exchange->body_bytes,
                          diag);
}

/* A raw binary request of Triton's binary data extension: the body is the elements of the only input, and all outputs
 * are binary data. */
static inlay_status read_raw(struct exchange *exchange, inlay_diag *diag)
{
    const struct model *model = exchange->request.job.model;
    const inlay_io_info *input = NULL;
    uint32_t count = 0;

    for (uint32_t i = 0; i < model->io.input_count; i++) {
        if (model->states.inputs != NULL && model->states.inputs[i])
            continue;
        input = &model->io.inputs[i];
        count++;
    }
    if (count != 1)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "a request without JSON (Inference-Header-Content-Length: 0) needs a model with one input, "
                          "but model '%s' has %u",
                          model->name, count);
    exchange->request.infer.binary_output = true;
    return infer_set_body(&exchange->request.infer, input, model->batchable || reads_files(model), exchange->body,
                          exchange->body_bytes, diag);
}

static inlay_status read_inputs(struct request *request, inlay_diag *diag)
{
    struct exchange *exchange = exchange_of_request(request);
    size_t json_bytes = exchange->json_bytes == SIZE_MAX ? exchange->body_bytes : exchange->json_bytes;

    if (exchange->body_bytes == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the request has no body");
    if (json_bytes == 0)
        return read_raw(exchange, diag);
    if (!is_file(exchange) && json_bytes == exchange->body_bytes && reads_files(request->job.model) &&
        memchr("{ \t\r\n", exchange->body[0], 5) == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the body is neither JSON nor a file: send a file as the body alone, with its type in the "
                          "header, for instance --data-binary @FILE -H 'Content-Type: image/png'");
    return is_file(exchange)
               ? read_file(exchange, diag)
               : infer_parse_rest(exchange->body, exchange->body_bytes, json_bytes, &request->infer, diag);
}

void answer_infer(struct exchange *exchange)
{
    static const request_codec codec = { read_inputs, put_results, fail };

    request_infer(&exchange->request, &codec, exchange->route.name, exchange->route.name_bytes,
                  exchange->route.version);
}
