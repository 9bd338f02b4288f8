/* Writes the corpora of fuzz_grpc and fuzz_http2 into the two folders given: calls of each kind, and what a client
 * sends for some of them. */
#include "grpc_fake.h"
#include <stdlib.h>
#include <string.h>

#define TEXT(text) ((char *)(uintptr_t)(text))

static void write_file(const char *corpus, const char *name, const struct strbuf *b)
{
    char path[512];
    FILE *f;

    (void)snprintf(path, sizeof path, "%s/%s", corpus, name);
    f = fopen(path, "wb");
    if (f == NULL || fwrite(b->data, 1, b->size, f) != b->size || fclose(f) != 0)
        exit(1);
}

static void begin(struct strbuf *b, uint8_t which, uint8_t step)
{
    b->size = 0;
    strbuf_add(b, &which, 1);
    strbuf_add(b, &step, 1);
}

static void add(struct strbuf *b, const ProtobufCMessage *m)
{
    size_t bytes = protobuf_c_message_get_packed_size(m);
    uint8_t prefix[5] = { 0, 0, 0, (uint8_t)(bytes >> 8), (uint8_t)bytes };
    uint8_t *packed = malloc(bytes + 1);

    if (packed == NULL)
        exit(1);
    strbuf_add(b, prefix, sizeof prefix);
    strbuf_add(b, packed, protobuf_c_message_pack(m, packed));
    free(packed);
}

/* The bytes of a client that makes the call, in pieces of `step`. */
static void write_connection(const char *corpus, const char *name, const struct strbuf *b, uint8_t step)
{
    fake_client c;
    struct strbuf bytes = { .data = NULL };
    const uint8_t *out;
    ssize_t n;

    if (!fake_client_open(&c, (const uint8_t *)b->data, b->size))
        exit(1);
    strbuf_add(&bytes, &step, 1);
    while ((n = nghttp2_session_mem_send(c.session, &out)) > 0)
        strbuf_add(&bytes, out, (size_t)n);
    nghttp2_session_del(c.session);
    write_file(corpus, name, &bytes);
    strbuf_deinit(&bytes);
}

/* x [2], FP32 or BYTES, in a field or raw, with parameters of every kind. */
static void make_request(struct strbuf *b, bool raw, bool texts)
{
    Inference__InferRequest q = INFERENCE__INFER_REQUEST__INIT;
    Inference__Tensor t = INFERENCE__TENSOR__INIT, *tensors = &t;
    Inference__Contents c = INFERENCE__CONTENTS__INIT;
    Inference__WantedTensor w = INFERENCE__WANTED_TENSOR__INIT, *wanted = &w;
    Inference__Parameter p[4], *parameters[4];
    Inference__ParameterValue v[4];
    static const char *const keys[] = { "timeout", "sequence_id", "sequence_start", "priority" };
    int64_t shape[1] = { 2 };
    float floats[2] = { 1, 2 };
    uint8_t lengths[] = { 1, 0, 0, 0, 'a', 2, 0, 0, 0, 'b', 'c' };
    ProtobufCBinaryData data = { texts ? sizeof lengths : sizeof floats, texts ? lengths : (uint8_t *)floats },
                        parts[2] = { { 1, lengths + 4 }, { 2, lengths + 9 } };

    for (int i = 0; i < 4; i++) {
        inference__parameter__init(&p[i]);
        inference__parameter_value__init(&v[i]);
        p[i].key = TEXT(keys[i]);
        p[i].value = &v[i];
        parameters[i] = &p[i];
    }
    v[0].choice_case = INFERENCE__PARAMETER_VALUE__CHOICE_INT64_VALUE;
    v[0].int64_value = 1000;
    v[1].choice_case = INFERENCE__PARAMETER_VALUE__CHOICE_STRING_VALUE;
    v[1].string_value = TEXT("one");
    v[2].choice_case = INFERENCE__PARAMETER_VALUE__CHOICE_BOOL_VALUE;
    v[2].bool_value = true;
    v[3].choice_case = INFERENCE__PARAMETER_VALUE__CHOICE_UINT64_VALUE;
    v[3].uint64_value = 1;
    t.name = TEXT("x");
    t.datatype = TEXT(texts ? "BYTES" : "FP32");
    t.shape = shape;
    t.n_shape = 1;
    w.name = TEXT("y");
    if (!raw) {
        t.contents = &c;
        c.n_fp32_contents = texts ? 0 : 2;
        c.fp32_contents = floats;
        c.n_bytes_contents = texts ? 2 : 0;
        c.bytes_contents = parts;
    }
    q.model_name = TEXT("m");
    q.model_version = TEXT("1");
    q.id = TEXT("id");
    q.parameters = parameters;
    q.n_parameters = 4;
    q.inputs = &tensors;
    q.n_inputs = 1;
    q.outputs = &wanted;
    q.n_outputs = 1;
    q.raw_input_contents = &data;
    q.n_raw_input_contents = raw;
    add(b, &q.base);
}

static void write_requests(const char *calls, const char *connections, struct strbuf *b)
{
    static const char *const names[] = { "infer_floats", "infer_raw", "infer_texts", "infer_raw_texts" };

    for (int kind = 0; kind < 4; kind++) {
        begin(b, 0, (uint8_t)(kind % 2 * 7));
        make_request(b, kind % 2 != 0, kind >= 2);
        write_file(calls, names[kind], b);
        if (kind < 2)
            write_connection(connections, names[kind], b, (uint8_t)(kind * 5));
    }
    begin(b, 1, 0);
    make_request(b, true, false);
    make_request(b, false, true);
    make_request(b, true, true);
    write_file(calls, "stream", b);
    write_connection(connections, "stream", b, 0);
}

static void write_others(const char *calls, const char *connections, struct strbuf *b)
{
    Inference__ModelName n = INFERENCE__MODEL_NAME__INIT;
    Inference__RepositoryRequest r = INFERENCE__REPOSITORY_REQUEST__INIT;
    Inference__TraceValue tv = INFERENCE__TRACE_VALUE__INIT;
    Inference__TraceEntry te = INFERENCE__TRACE_ENTRY__INIT, *entries = &te;
    Inference__TraceSettings ts = INFERENCE__TRACE_SETTINGS__INIT;
    char *levels[] = { TEXT("TIMESTAMPS") };

    begin(b, 4, 0);
    n.name = TEXT("m");
    n.version = TEXT("2");
    add(b, &n.base);
    write_file(calls, "ready", b);
    write_connection(connections, "ready", b, 1);
    begin(b, 8, 3);
    r.model_name = TEXT("m");
    add(b, &r.base);
    write_file(calls, "load", b);
    begin(b, 11, 0);
    tv.value = levels;
    tv.n_value = 1;
    te.key = TEXT("trace_level");
    te.value = &tv;
    ts.settings = &entries;
    ts.n_settings = 1;
    add(b, &ts.base);
    write_file(calls, "trace", b);
    begin(b, 2, 0);
    add(b, &n.base);
    add(b, &n.base); /* one too many */
    write_file(calls, "two_messages", b);
    begin(b, 14, 0);
    write_file(calls, "no_such_method", b);
    write_connection(connections, "no_such_method", b, 0);
}

int main(int argc, char **argv)
{
    struct strbuf b = { .data = NULL };

    if (argc != 3) {
        (void)fprintf(stderr, "usage: grpc_seeds GRPC_CORPUS HTTP2_CORPUS\n");
        return 1;
    }
    write_requests(argv[1], argv[2], &b);
    write_others(argv[1], argv[2], &b);
    strbuf_deinit(&b);
    return 0;
}
