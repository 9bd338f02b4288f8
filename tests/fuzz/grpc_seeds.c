/* Writes the corpora of fuzz_grpc and fuzz_http2 into the two folders given: calls of each kind, and the bytes that a
 * client sends for some of them. */
#include "grpc_fake.h"
#include <stdlib.h>
#include <string.h>

#define TEXT(text) ((char *)(uintptr_t)(text))

static void write_file(const char *corpus, const char *name, const struct strbuf *strbuf)
{
    char path[512];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", corpus, name);
    file = fopen(path, "wb");
    if (file == NULL || fwrite(strbuf->data, 1, strbuf->size, file) != strbuf->size || fclose(file) != 0)
        exit(1);
}

static void begin(struct strbuf *strbuf, uint8_t which, uint8_t step)
{
    strbuf->size = 0;
    strbuf_add(strbuf, &which, 1);
    strbuf_add(strbuf, &step, 1);
}

static void add(struct strbuf *strbuf, const ProtobufCMessage *message)
{
    size_t bytes = protobuf_c_message_get_packed_size(message);
    uint8_t prefix[5] = { 0, 0, 0, (uint8_t)(bytes >> 8), (uint8_t)bytes };
    uint8_t *packed = malloc(bytes + 1);

    if (packed == NULL)
        exit(1);
    strbuf_add(strbuf, prefix, sizeof prefix);
    strbuf_add(strbuf, packed, protobuf_c_message_pack(message, packed));
    free(packed);
}

/* Writes the bytes of a client that makes the call, in pieces of `step`. */
static void write_connection(const char *corpus, const char *name, const struct strbuf *strbuf, uint8_t step)
{
    fake_client client;
    struct strbuf bytes = { .data = NULL };
    const uint8_t *out;
    ssize_t n;

    if (!fake_client_open(&client, (const uint8_t *)strbuf->data, strbuf->size))
        exit(1);
    strbuf_add(&bytes, &step, 1);
    while ((n = nghttp2_session_mem_send(client.session, &out)) > 0)
        strbuf_add(&bytes, out, (size_t)n);
    nghttp2_session_del(client.session);
    write_file(corpus, name, &bytes);
    strbuf_deinit(&bytes);
}

/* A request with input x [2] of FP32 or BYTES, in a field or raw, and parameters of every type. */
static void make_request(struct strbuf *strbuf, bool raw, bool texts)
{
    Inference__InferRequest request = INFERENCE__INFER_REQUEST__INIT;
    Inference__Tensor tensor = INFERENCE__TENSOR__INIT, *tensors = &tensor;
    Inference__Contents contents = INFERENCE__CONTENTS__INIT;
    Inference__WantedTensor wanted_tensor = INFERENCE__WANTED_TENSOR__INIT, *wanted = &wanted_tensor;
    Inference__Parameter parameter[4], *parameters[4];
    Inference__ParameterValue parameter_values[4];
    static const char *const keys[] = { "timeout", "sequence_id", "sequence_start", "priority" };
    int64_t shape[1] = { 2 };
    float floats[2] = { 1, 2 };
    uint8_t lengths[] = { 1, 0, 0, 0, 'a', 2, 0, 0, 0, 'b', 'c' };
    ProtobufCBinaryData data = { texts ? sizeof lengths : sizeof floats, texts ? lengths : (uint8_t *)floats },
                        parts[2] = { { 1, lengths + 4 }, { 2, lengths + 9 } };

    for (int i = 0; i < 4; i++) {
        inference__parameter__init(&parameter[i]);
        inference__parameter_value__init(&parameter_values[i]);
        parameter[i].key = TEXT(keys[i]);
        parameter[i].value = &parameter_values[i];
        parameters[i] = &parameter[i];
    }
    parameter_values[0].choice_case = INFERENCE__PARAMETER_VALUE__CHOICE_INT64_VALUE;
    parameter_values[0].int64_value = 1000;
    parameter_values[1].choice_case = INFERENCE__PARAMETER_VALUE__CHOICE_STRING_VALUE;
    parameter_values[1].string_value = TEXT("one");
    parameter_values[2].choice_case = INFERENCE__PARAMETER_VALUE__CHOICE_BOOL_VALUE;
    parameter_values[2].bool_value = true;
    parameter_values[3].choice_case = INFERENCE__PARAMETER_VALUE__CHOICE_UINT64_VALUE;
    parameter_values[3].uint64_value = 1;
    tensor.name = TEXT("x");
    tensor.datatype = TEXT(texts ? "BYTES" : "FP32");
    tensor.shape = shape;
    tensor.n_shape = 1;
    wanted_tensor.name = TEXT("y");
    if (!raw) {
        tensor.contents = &contents;
        contents.n_fp32_contents = texts ? 0 : 2;
        contents.fp32_contents = floats;
        contents.n_bytes_contents = texts ? 2 : 0;
        contents.bytes_contents = parts;
    }
    request.model_name = TEXT("m");
    request.model_version = TEXT("1");
    request.id = TEXT("id");
    request.parameters = parameters;
    request.n_parameters = 4;
    request.inputs = &tensors;
    request.n_inputs = 1;
    request.outputs = &wanted;
    request.n_outputs = 1;
    request.raw_input_contents = &data;
    request.n_raw_input_contents = raw;
    add(strbuf, &request.base);
}

static void write_requests(const char *calls, const char *connections, struct strbuf *strbuf)
{
    static const char *const names[] = { "infer_floats", "infer_raw", "infer_texts", "infer_raw_texts" };

    for (int kind = 0; kind < 4; kind++) {
        begin(strbuf, 0, (uint8_t)(kind % 2 * 7));
        make_request(strbuf, kind % 2 != 0, kind >= 2);
        write_file(calls, names[kind], strbuf);
        if (kind < 2)
            write_connection(connections, names[kind], strbuf, (uint8_t)(kind * 5));
    }
    begin(strbuf, 1, 0);
    make_request(strbuf, true, false);
    make_request(strbuf, false, true);
    make_request(strbuf, true, true);
    write_file(calls, "stream", strbuf);
    write_connection(connections, "stream", strbuf, 0);
}

static void write_others(const char *calls, const char *connections, struct strbuf *strbuf)
{
    Inference__ModelName model_name = INFERENCE__MODEL_NAME__INIT;
    Inference__RepositoryRequest repository_request = INFERENCE__REPOSITORY_REQUEST__INIT;
    Inference__TraceValue trace_value = INFERENCE__TRACE_VALUE__INIT;
    Inference__TraceEntry trace_entry = INFERENCE__TRACE_ENTRY__INIT, *entries = &trace_entry;
    Inference__TraceSettings trace_settings = INFERENCE__TRACE_SETTINGS__INIT;
    char *levels[] = { TEXT("TIMESTAMPS") };

    begin(strbuf, 4, 0);
    model_name.name = TEXT("m");
    model_name.version = TEXT("2");
    add(strbuf, &model_name.base);
    write_file(calls, "ready", strbuf);
    write_connection(connections, "ready", strbuf, 1);
    begin(strbuf, 8, 3);
    repository_request.model_name = TEXT("m");
    add(strbuf, &repository_request.base);
    write_file(calls, "load", strbuf);
    begin(strbuf, 11, 0);
    trace_value.value = levels;
    trace_value.n_value = 1;
    trace_entry.key = TEXT("trace_level");
    trace_entry.value = &trace_value;
    trace_settings.settings = &entries;
    trace_settings.n_settings = 1;
    add(strbuf, &trace_settings.base);
    write_file(calls, "trace", strbuf);
    begin(strbuf, 2, 0);
    add(strbuf, &model_name.base);
    add(strbuf, &model_name.base); /* one message too many */
    write_file(calls, "two_messages", strbuf);
    begin(strbuf, 14, 0);
    write_file(calls, "no_such_method", strbuf);
    write_connection(connections, "no_such_method", strbuf, 0);
}

int main(int argc, char **argv)
{
    struct strbuf strbuf = { .data = NULL };

    if (argc != 3) {
        (void)fprintf(stderr, "usage: grpc_seeds GRPC_CORPUS HTTP2_CORPUS\n");
        return 1;
    }
    write_requests(argv[1], argv[2], &strbuf);
    write_others(argv[1], argv[2], &strbuf);
    strbuf_deinit(&strbuf);
    return 0;
}
