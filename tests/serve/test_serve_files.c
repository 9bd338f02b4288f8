/* Models that `inlay pipe` made: pictures in, labels out; several of different sizes; ensembles of such models; damaged
 * and hostile files. */
#include "grpc_client.h"
#include "inference.pb-c.h"
#include "inlay/types.h"
#include "model_writer.h"
#include "pictures.h"
#include "random.h"
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmocka_all.h"

enum { RED, GREEN, BLUE, LARGE, PICTURES };
static const struct {
    const char *label;
    uint32_t colour;
} colours[] = { { "red", 0xff0000 }, { "green", 0x00ff00 }, { "blue", 0x0000ff } };

static struct serving server;
static int grpc_port;
static picture_data pictures[PICTURES];

#define COLOURS "/v2/models/colours/infer"
#define PRE "decode,resize:cover=4x4,crop:4,normalise:unit"

static void save(const char *name, struct wire *wire)
{
    char path[256];
    FILE *file = fopen(serving_path(&server, name, path, sizeof path), "wb");

    assert_true(file != NULL && !wire->failed && wire_write(wire, fileno(file)));
    (void)fclose(file);
    wire_deinit(wire);
}

/* y [N,3] = the means of the planes of x [N,3,4,4]. */
static void write_means(const char *name)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);

    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "N,3,4,4");
    mw_node(&wire, "GlobalAveragePool", "x", "m");
    mw_node(&wire, "Flatten", "m", "y");
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "N,3");
    wire_end(&wire, mark);
    save(name, &wire);
}

/* y [N,12] = op(x), as place_plugin.c has it; x is [N,12], or [N,3,2,2]. */
static void write_place(const char *name, const char *op, const char *dims)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);

    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, dims);
    mw_node(&wire, "Flatten", "x", "flat");
    mw_node(&wire, op, "flat", "y");
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "N,12");
    wire_end(&wire, mark);
    save(name, &wire);
}

/* Runs `inlay pipe` in the test's folder. */
static void pipe_model(const char *model, const char *steps, const char *to)
{
    char command[1024], folder[128];

    (void)snprintf(folder, sizeof folder, "models/%s/1", to);
    serving_folder(&server, folder);
    (void)snprintf(command, sizeof command, "cd %s && " INLAY_CLI " pipe %s %s -o %s/model.onnx >/dev/null",
                   server.folder, model, steps, folder);
    assert_int_equal(system(command), 0);
}

static void write_config(const char *model, const char *file, const char *text)
{
    char path[128];

    (void)snprintf(path, sizeof path, "models/%s", model);
    serving_folder(&server, path);
    (void)snprintf(path, sizeof path, "models/%s/%s", model, file);
    serving_file(&server, path, text, 0644);
}

#define STEP(model, in, from, out, to)                                                                                 \
    "{ model_name: \"" model "\" input_map { key: \"" in "\" value: \"" from "\" } output_map { key: \"" out           \
    "\" value: \"" to "\" } }"

static void write_models_of_files(void)
{
    write_means("means.onnx");
    write_place("made.onnx", "Neg", "N,3,2,2");
    write_place("read.onnx", "Abs", "N,12");
    serving_file(&server, "labels.txt", "red\ngreen\nblue\n", 0644);
    pipe_model("means.onnx", "--pre " PRE " --post topk:2:labels.txt", "colours");
    write_config("colours", "config.yaml",
                 "max_batch: 8\nbatch_delay_us: 20000\noptions: [prepost.max_pixels=1000000]\n");
    pipe_model("means.onnx", "--pre " PRE, "features");
    pipe_model("means.onnx", "--pre decode,resize:4,normalise:unit", "wide");
    pipe_model("means.onnx", "--pre " PRE " --post topk:2:labels.txt", "strict");
    write_config("strict", "config.pbtxt",
                 "max_batch_size: 8 input { name: \"file\" data_type: TYPE_STRING dims: 1 }\n"
                 "output { name: \"scores\" data_type: TYPE_FP32 dims: 2 }\n");
    pipe_model("made.onnx", "--pre decode,resize:2x2,normalise:unit", "made");
    serving_folder(&server, "models/read/1");
    write_place("models/read/1/model.onnx", "Abs", "N,12");
    write_config("made", "config.yaml", "options: [\"providers=place,prepost,reference\"]\n");
    write_config("read", "config.yaml", "options: [\"providers=place,reference\"]\n");
    write_config("places", "config.pbtxt",
                 "platform: \"ensemble\" max_batch_size: 8\n"
                 "input { name: \"picture\" data_type: TYPE_STRING dims: 1 }\n"
                 "output { name: \"places\" data_type: TYPE_FP32 dims: 12 }\n"
                 "ensemble_scheduling { step [ " STEP("made", "file", "picture", "y",
                                                      "row") ",\n" STEP("read", "x", "row", "y", "places") " ] }\n");
}

static int start(void **state)
{
    static const char *const flags[] = { "--grpc-port",  "0", "--plugin-dirs", "FOLDER/plugins", "--cache-dir",
                                         "FOLDER/cache", NULL };

    (void)state;
    serving_prepare(&server);
    serving_plugin(&server, PLACE_PLUGIN, "place");
    write_models_of_files();
    pictures[RED] = picture_jpeg(16, 16, colours[RED].colour);
    pictures[GREEN] = picture_png(7, 30, colours[GREEN].colour);
    pictures[BLUE] = picture_jpeg(40, 9, colours[BLUE].colour);
    pictures[LARGE] = picture_png(1001, 1000, 0);
    serving_start(&server, flags);
    grpc_port = grpc_port_of(&server);
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PICTURES; i++)
        free(pictures[i].data);
    return serving_close(&server);
}

static void send_file(const char *path, const char *type, const void *data, size_t bytes, struct answer *answer)
{
    char headers[96];
    int fd = client_connect(&server);

    (void)snprintf(headers, sizeof headers, "Content-Type: %s\r\n", type);
    client_call(fd, "POST", path, headers, data, bytes, answer);
    (void)close(fd);
}

static void expect_file(const char *path, const char *type, const void *data, size_t bytes, int code, const char *part)
{
    struct answer answer;

    send_file(path, type, data, bytes, &answer);
    if (answer.code != code || strstr(answer.body, part) == NULL)
        fail_msg("%s: %d %s, expected %d %s", path, answer.code, answer.body, code, part);
}

/* Sends the pictures as binary data after the JSON. shape: of the tensor. */
static void send_binary(const char *path, const char *shape, const picture_data *const *list, uint32_t count,
                        struct answer *answer)
{
    static char body[1 << 20];
    char headers[96], json[256];
    uint32_t total = 0;
    size_t used;
    int fd = client_connect(&server);

    for (uint32_t i = 0; i < count; i++)
        total += 4 + (uint32_t)list[i]->bytes;
    used = (size_t)snprintf(json, sizeof json,
                            "{\"inputs\":[{\"name\":\"%s\",\"shape\":%s,\"datatype\":\"BYTES\",\"parameters\":{"
                            "\"binary_data_size\":%u}}]}",
                            strstr(path, "places") != NULL ? "picture" : "file", shape, total);
    (void)snprintf(headers, sizeof headers, "Inference-Header-Content-Length: %zu\r\n", used);
    assert_true(used + total <= sizeof body);
    memcpy(body, json, used);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t bytes = (uint32_t)list[i]->bytes;

        memcpy(body + used, &bytes, 4);
        memcpy(body + used + 4, list[i]->data, bytes);
        used += 4 + bytes;
    }
    client_call(fd, "POST", path, headers, body, used, answer);
    (void)close(fd);
}

static void expect_binary(const char *path, const char *shape, const picture_data *const *list, uint32_t count,
                          int code, const char *part)
{
    struct answer answer;

    send_binary(path, shape, list, count, &answer);
    if (answer.code != code || strstr(answer.body, part) == NULL)
        fail_msg("%s %s: %d %s, expected %d %s", path, shape, answer.code, answer.body, code, part);
}

static void test_metadata(void **state)
{
    (void)state;
    client_expect(&server, "GET", "/v2/models/colours", "", NULL, 200,
                  "\"inputs\":[{\"name\":\"file\",\"datatype\":\"BYTES\",\"shape\":[-1]}],\"outputs\":[{\"name\":"
                  "\"labels\",\"datatype\":\"BYTES\",\"shape\":[-1,2]},{\"name\":\"scores\",\"datatype\":\"FP32\","
                  "\"shape\":[-1,2]}");
    client_expect(&server, "GET", "/v2/models/places", "", NULL, 200,
                  "\"inputs\":[{\"name\":\"picture\",\"datatype\":\"BYTES\",\"shape\":[-1]}],\"outputs\":[{\"name\":"
                  "\"places\",\"datatype\":\"FP32\",\"shape\":[-1,12]}]");
    client_expect(&server, "GET", "/v2/models/strict/config", "", NULL, 200, "\"max_batch_size\":8");
}

static void test_body(void **state)
{
    (void)state;
    expect_file(COLOURS, "image/jpeg", pictures[RED].data, pictures[RED].bytes, 200,
                "\"shape\":[1,2],\"data\":[\"red\",");
    expect_file(COLOURS, "Image/PNG", pictures[GREEN].data, pictures[GREEN].bytes, 200, "[\"green\",");
    expect_file("/v2/models/strict/infer", "image/jpeg", pictures[BLUE].data, pictures[BLUE].bytes, 200, "[\"blue\",");
    expect_file("/v2/models/twice/infer", "image/jpeg", pictures[RED].data, pictures[RED].bytes, 400,
                "the body is image/jpeg, but model 'twice' does not read files");
    expect_file(COLOURS, "multipart/form-data", pictures[RED].data, pictures[RED].bytes, 400,
                "--data-binary @FILE -H 'Content-Type: image/png'");
    expect_file(COLOURS, "application/json", pictures[RED].data, pictures[RED].bytes, 400, "JSON");
}

static void test_binary(void **state)
{
    const picture_data *all[] = { &pictures[RED], &pictures[GREEN], &pictures[BLUE], &pictures[GREEN] };

    (void)state;
    expect_binary(COLOURS, "[1]", all, 1, 200, "[\"red\",");
    expect_binary(COLOURS, "[1,1]", all, 1, 200, "[\"red\",");
    expect_binary(COLOURS, "[4]", all, 4, 200, "\"shape\":[4,2]");
    for (uint32_t i = 0; i < 2; i++) {
        struct answer answer;
        const char *at;

        send_binary(COLOURS, i == 0 ? "[4]" : "[4,1]", all, 4, &answer);
        at = strstr(answer.body, "\"data\":[\"red\",");
        assert_non_null(at);
        assert_true((at = strstr(at, ",\"green\",")) != NULL && (at = strstr(at, ",\"blue\",")) != NULL &&
                    strstr(at, ",\"green\",") != NULL);
    }
    expect_binary(COLOURS, "[2,2]", all, 4, 400, "input 'file' has shape [2,2], but the model expects [-1]");
    expect_binary(COLOURS, "[0]", all, 0, 400, "input 'file' has 0 files");
    /* If the model has no fixed picture size, the results of all files must have the same shape. */
    expect_binary("/v2/models/wide/infer", "[1]", all, 1, 200, "\"shape\":[1,3]");
}

static void test_json(void **state)
{
    gnutls_datum_t file = { pictures[GREEN].data, (unsigned)pictures[GREEN].bytes }, text;
    char body[8192];
    size_t used;

    (void)state;
    assert_int_equal(gnutls_base64_encode2(&file, &text), 0);
    (void)snprintf(
        body, sizeof body,
        "{\"inputs\":[{\"name\":\"file\",\"shape\":[2],\"datatype\":\"BYTES\",\"data\":[\"%.*s\",\"%.*s\"]}]}",
        (int)text.size, text.data, (int)text.size, text.data);
    client_expect(&server, "POST", COLOURS, "", body, 200, "\"shape\":[2,2],\"data\":[\"green\",");
    (void)snprintf(
        body, sizeof body,
        "{\"inputs\":[{\"name\":\"file\",\"shape\":[2],\"datatype\":\"BYTES\",\"data\":[\"%.*s\",\"@@@@\"]}]}",
        (int)text.size, text.data);
    client_expect(&server, "POST", COLOURS, "", body, 400,
                  "input 'file', element 1: in JSON, a file is a text in base64");
    gnutls_free(text.data);
    /* UINT8: the bytes of one file, as the model declares it. */
    used = (size_t)snprintf(body, sizeof body,
                            "{\"inputs\":[{\"name\":\"file\",\"shape\":[%zu],\"datatype\":\"UINT8\",\"data\":[",
                            pictures[GREEN].bytes);
    for (size_t i = 0; i < pictures[GREEN].bytes; i++)
        used += (size_t)snprintf(body + used, sizeof body - used, "%s%u", i > 0 ? "," : "", pictures[GREEN].data[i]);
    (void)snprintf(body + used, sizeof body - used, "]}]}");
    client_expect(&server, "POST", COLOURS, "", body, 200, "[\"green\",");
}

static void test_grpc(void **state)
{
    (void)state;
    for (int raw = 0; raw < 2; raw++) {
        Inference__InferRequest request = INFERENCE__INFER_REQUEST__INIT;
        Inference__Tensor tensor = INFERENCE__TENSOR__INIT, *list = &tensor;
        Inference__Contents contents = INFERENCE__CONTENTS__INIT;
        ProtobufCBinaryData files[2] = { { pictures[BLUE].bytes, pictures[BLUE].data },
                                         { pictures[RED].bytes, pictures[RED].data } },
                            bytes;
        static uint8_t joined[4096];
        size_t used = 0;
        int64_t shape[1] = { 2 };
        grpc_call call = { .path = SERVICE "ModelInfer" };
        Inference__InferReply *reply;
        grpc_client client;

        for (int i = 0; i < 2; i++) {
            const uint32_t length = (uint32_t)files[i].len;

            assert_true(used + 4 + length <= sizeof joined);
            memcpy(joined + used, &length, 4);
            memcpy(joined + used + 4, files[i].data, length);
            used += 4 + length;
        }
        bytes = (ProtobufCBinaryData){ used, joined };
        tensor.name = (char *)(uintptr_t) "file";
        tensor.datatype = (char *)(uintptr_t) "BYTES";
        tensor.shape = shape;
        tensor.n_shape = 1;
        contents.bytes_contents = files;
        contents.n_bytes_contents = 2;
        tensor.contents = raw ? NULL : &contents;
        request.model_name = (char *)(uintptr_t) "colours";
        request.inputs = &list;
        request.n_inputs = 1;
        request.raw_input_contents = &bytes;
        request.n_raw_input_contents = (size_t)raw;
        grpc_add(&call, &request.base);
        grpc_open(&client, grpc_port);
        grpc_submit(&client, &call);
        grpc_wait(&client, &call);
        assert_int_equal(call.status, 0);
        reply = grpc_message(&call, 0, &inference__infer_reply__descriptor);
        assert_non_null(reply);
        assert_string_equal(reply->outputs[0]->name, "labels");
        assert_true(reply->outputs[0]->shape[0] == 2 && reply->outputs[0]->shape[1] == 2);
        if (raw)
            assert_memory_equal(reply->raw_output_contents[0].data, "\4\0\0\0blue", 8);
        else
            assert_memory_equal(reply->outputs[0]->contents->bytes_contents[2].data, "red", 3);
        protobuf_c_message_free_unpacked(&reply->base, NULL);
        grpc_close(&client);
    }
}

static void test_damaged(void **state)
{
    const picture_data cut = { pictures[BLUE].data, pictures[BLUE].bytes / 2 }, empty = { pictures[BLUE].data, 0 };
    const picture_data *rows[][2] = { { &pictures[RED], &cut },
                                      { &pictures[RED], &empty },
                                      { &pictures[GREEN], &pictures[LARGE] } };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_binary(COLOURS, "[2]", rows[i], 2, 400, "input 'file', element 1: ");
    expect_file(COLOURS, "image/png", "not a picture", 13, 400, "the 13 bytes are not an image");
    expect_file(COLOURS, "image/png", pictures[LARGE].data, pictures[LARGE].bytes, 400,
                "the header says 1001 x 1000 pixels; 1 to 1000000 are allowed");
    rows[0][0] = &cut;
    expect_binary("/v2/models/places/infer", "[1]", rows[0], 1, 400,
                  "step 1 (model 'made'): input 'picture', element 0: ");
}

/* Requests that share a run: each gets the labels of its picture, and only that with a damaged one fails. */
static void test_joined(void **state)
{
    enum { CLIENTS = 12 };
    int fds[CLIENTS];

    (void)state;
    for (uint32_t round = 0; round < 5; round++) {
        for (uint32_t i = 0; i < CLIENTS; i++) {
            const picture_data *file = &pictures[i % 3];
            char head[160];

            fds[i] = client_connect(&server);
            (void)snprintf(head, sizeof head,
                           "POST " COLOURS " HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/any\r\n"
                           "Content-Length: %zu\r\n\r\n",
                           i == 7 ? 30 : file->bytes);
            client_text(fds[i], head);
            client_send(fds[i], file->data, i == 7 ? 30 : file->bytes);
        }
        for (uint32_t i = 0; i < CLIENTS; i++) {
            char part[32];
            struct answer answer;

            client_receive(fds[i], &answer);
            (void)close(fds[i]);
            (void)snprintf(part, sizeof part, "[\"%s\",", colours[i % 3].label);
            assert_int_equal(answer.code, i == 7 ? 400 : 200);
            assert_non_null(strstr(answer.body, i == 7 ? "element 0" : part));
        }
    }
}

static uint64_t address_at(const float *words)
{
    uint64_t address = 0;

    for (int i = 0; i < 4; i++)
        address |= (uint64_t)words[i] << (16 * i);
    return address;
}

/* What a step writes is what the next step reads, also for several pictures. */
static void test_places(void **state)
{
    const picture_data *all[] = { &pictures[RED], &pictures[GREEN], &pictures[BLUE] };

    (void)state;
    for (uint32_t count = 1; count <= 3; count++) {
        struct answer answer;
        float rows[36];
        char shape[8], *at;

        (void)snprintf(shape, sizeof shape, "[%u]", count);
        send_binary("/v2/models/places/infer", shape, all, count, &answer);
        assert_int_equal(answer.code, 200);
        at = strstr(answer.body, "\"data\":[");
        assert_non_null(at);
        at += strlen("\"data\":[");
        for (uint32_t i = 0; i < count * 12; i++, at++)
            rows[i] = strtof(at, &at);
        for (uint32_t i = 0; i < count; i++) {
            assert_true(address_at(rows + 12 * i) != 0);
            assert_true(address_at(rows + 12 * i) == address_at(rows + 12 * i + 4));
            assert_true(address_at(rows + 12 * i) == address_at(rows) + 48 * i);
        }
    }
}

static void test_mutated(void **state)
{
    uint64_t seed = 1;
    uint32_t refused = 0;

    (void)state;
    for (uint32_t i = 0; i < 300; i++) {
        const picture_data *from = &pictures[i % 3];
        uint8_t *data = malloc(from->bytes);
        size_t bytes = from->bytes - (i % 5 == 0 ? random_below(&seed, (uint32_t)from->bytes) : 0);
        struct answer answer;

        assert_non_null(data);
        memcpy(data, from->data, from->bytes);
        for (uint32_t k = random_below(&seed, 6); k > 0; k--)
            data[random_below(&seed, (uint32_t)from->bytes)] = (uint8_t)random_below(&seed, 256);
        send_file(COLOURS, "image/any", data, bytes, &answer);
        free(data);
        if (answer.code != 200 && (answer.code != 400 || strstr(answer.body, "input 'file', element 0: ") == NULL))
            fail_msg("file %u: %d %s", i, answer.code, answer.body);
        refused += answer.code == 400;
    }
    assert_true(refused > 0 && refused < 300);
    expect_file(COLOURS, "image/jpeg", pictures[RED].data, pictures[RED].bytes, 200, "[\"red\",");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metadata), cmocka_unit_test(test_body),   cmocka_unit_test(test_binary),
        cmocka_unit_test(test_json),     cmocka_unit_test(test_grpc),   cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_joined),   cmocka_unit_test(test_places), cmocka_unit_test(test_mutated),
    };

    return cmocka_run_group_tests(tests, start, end);
}
