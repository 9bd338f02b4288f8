/* Tensors in POSIX shared memory, over REST and gRPC: the system shared memory extension. */
#include "grpc_client.h"
#include "inference.pb-c.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server;
static int grpc_port;

enum { OBJECT_BYTES = 256 * 1024 };
static char key[64]; /* of the object that the tests share */
static int object = -1;
static float *memory; /* the object, mapped */

#define INFER "/v2/models/twice/infer"
#define REGIONS "/v2/systemsharedmemory"
#define IN(more) "{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"parameters\":{" more "}}"
#define TEXT(text) ((char *)(uintptr_t)(text))

static void expect(const char *method, const char *path, const char *body, int code, const char *part)
{
    client_expect(&server, method, path, "", body, code, part);
}

static void add(const char *name, uint64_t offset, uint64_t bytes, int code, const char *part)
{
    char path[128], body[256];

    (void)snprintf(path, sizeof path, REGIONS "/region/%s/register", name);
    (void)snprintf(body, sizeof body, "{\"key\":\"%s\",\"offset\":%llu,\"byte_size\":%llu}", key,
                   (unsigned long long)offset, (unsigned long long)bytes);
    expect("POST", path, body, code, part);
}

static int start(void **state)
{
    static const char *const flags[] = {
        "--grpc-port", "0", "--shared-memory", "1", "--max-body-bytes", "100000", NULL
    };

    (void)state;
    serving_open(&server, flags);
    grpc_port = grpc_port_of(&server);
    (void)snprintf(key, sizeof key, "/inlay-serve-test-%d", (int)getpid());
    object = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(object >= 0 && ftruncate(object, OBJECT_BYTES) == 0);
    memory = mmap(NULL, OBJECT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, object, 0);
    assert_true(memory != MAP_FAILED);
    return 0;
}

static int end(void **state)
{
    (void)state;
    (void)shm_unlink(key);
    (void)munmap(memory, OBJECT_BYTES);
    (void)close(object);
    return serving_close(&server);
}

static void test_regions(void **state)
{
    char all[512];

    (void)state;
    expect("GET", "/v2", NULL, 200, "\"system_shared_memory\"");
    expect("GET", REGIONS "/status", NULL, 200, "[]");
    add("in", 64, 12, 200, "");
    add("in", 0, 12, 400, "registered already");
    add("large", 0, OBJECT_BYTES + 1, 400, "is smaller than");
    add("large", UINT64_MAX, 2, 400, "is smaller than");
    add("none", 0, 0, 400, "byte_size above 0");
    add("out", 1024, 4096, 200, "");
    expect("POST", REGIONS "/region/a/register", "{\"key\":\"/inlay-serve-none\",\"byte_size\":1}", 400, "cannot open");
    expect("POST", REGIONS "/region/a/register", "{\"key\":\"/../etc/passwd\",\"byte_size\":1}", 400, "needs a name");
    expect("POST", REGIONS "/region/a/register", "{\"key\":\"x\",\"byte_size\":-1}", 400, "JSON");
    expect("POST", REGIONS "/region/a/register", "", 400, "JSON");
    (void)snprintf(all, sizeof all,
                   "[{\"name\":\"in\",\"key\":\"%s\",\"offset\":64,\"byte_size\":12},"
                   "{\"name\":\"out\",\"key\":\"%s\",\"offset\":1024,\"byte_size\":4096}]",
                   key, key);
    expect("GET", REGIONS "/status", NULL, 200, all);
    expect("GET", REGIONS "/region/out/status", NULL, 200, "[{\"name\":\"out\",");
    expect("GET", REGIONS "/region/none/status", NULL, 404, "no shared memory region");
    expect("POST", REGIONS "/region/none/unregister", "", 200, "");
    expect("POST", REGIONS "/region/in/unregister", "", 200, "");
    expect("GET", REGIONS "/region/in/status", NULL, 404, "no shared memory region");
    expect("POST", REGIONS "/unregister", "", 200, "");
    expect("GET", REGIONS "/status", NULL, 200, "[]");
    expect("POST", REGIONS "/register", "{}", 404, "unknown path");
}

static void test_inputs(void **state)
{
    (void)state;
    add("in", 64, 24, 200, "");
    for (int i = 0; i < 6; i++)
        memory[16 + i] = (float)(i + 1);
    expect("POST", INFER, "{\"inputs\":[" IN("\"shared_memory_region\":\"in\",\"shared_memory_byte_size\":12") "]}",
           200, "[2.0,4.0,6.0]");
    expect("POST", INFER,
           "{\"inputs\":[" IN("\"shared_memory_region\":\"in\",\"shared_memory_offset\":12,"
                              "\"shared_memory_byte_size\":12") "]}",
           200, "[8.0,10.0,12.0]");
    expect("POST", INFER,
           "{\"inputs\":[" IN("\"shared_memory_region\":\"in\",\"shared_memory_offset\":16,"
                              "\"shared_memory_byte_size\":12") "]}",
           400, "has only 24 bytes");
    expect("POST", INFER, "{\"inputs\":[" IN("\"shared_memory_region\":\"in\",\"shared_memory_byte_size\":8") "]}", 400,
           "has 8 bytes of data, but its shape needs 12");
    expect("POST", INFER, "{\"inputs\":[" IN("\"shared_memory_region\":\"in\"") "]}", 400, "its shape needs 12");
    expect("POST", INFER, "{\"inputs\":[" IN("\"shared_memory_region\":\"no\",\"shared_memory_byte_size\":12") "]}",
           400, "no shared memory region 'no'");
    expect("POST", INFER,
           "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3],\"parameters\":{"
           "\"shared_memory_region\":\"in\",\"shared_memory_byte_size\":12}}]}",
           400, "send one");
    expect("POST", REGIONS "/unregister", "", 200, "");
}

static void test_outputs(void **state)
{
    static const char form[] = "{\"inputs\":[" IN(
        "\"shared_memory_region\":\"in\",\"shared_memory_byte_size\":12") "],\"outputs\":[{\"name\":\"y\","
                                                                          "\"parameters\":{\"shared_memory_region\":"
                                                                          "\"out\",\"shared_memory_offset\":%d,"
                                                                          "\"shared_memory_byte_size\":%d}}]}";
    char body[512];
    struct answer answer;

    (void)state;
    add("in", 0, 12, 200, "");
    add("out", 1024, 64, 200, "");
    memcpy(memory, (const float[]){ 1, 2, 3 }, 12);
    memset(memory + 256, 0, 64);
    (void)snprintf(body, sizeof body, form, 16, 48);
    client_once(&server, "POST", INFER, "", body, &answer);
    assert_int_equal(answer.code, 200);
    assert_non_null(strstr(answer.body, "\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[1,3],\"parameters\":{"
                                        "\"shared_memory_region\":\"out\",\"shared_memory_offset\":16,"
                                        "\"shared_memory_byte_size\":12}}"));
    assert_null(strstr(answer.body, "\"data\""));
    assert_memory_equal(memory + 260, ((const float[]){ 2, 4, 6 }), 12);
    assert_true(memory[259] == 0 && memory[263] == 0);
    (void)snprintf(body, sizeof body, form, 0, 8);
    expect("POST", INFER, body, 400, "has 12 bytes, but its shared_memory_byte_size is 8");
    (void)snprintf(body, sizeof body, form, 60, 12);
    expect("POST", INFER, body, 400, "has only 64 bytes");
    expect("POST", REGIONS "/unregister", "", 200, "");
}

/* A region stays valid after shm_unlink(). A client that shortens its object gets a failure; the server lives. */
static void test_hostile_objects(void **state)
{
    static const char body[] =
        "{\"inputs\":[" IN("\"shared_memory_region\":\"other\",\"shared_memory_byte_size\":12") "]}";
    static const char large[] =
        "{\"inputs\":[{\"name\":\"x\",\"shape\":[10000,3],\"datatype\":\"FP32\",\"parameters\":{"
        "\"shared_memory_region\":\"all\",\"shared_memory_byte_size\":120000}}]}";
    char name[80], text[256];
    int fd;

    (void)state;
    (void)snprintf(name, sizeof name, "%s-other", key);
    fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0 && ftruncate(fd, 4096) == 0);
    (void)snprintf(text, sizeof text, "{\"key\":\"%s\",\"byte_size\":4096}", name);
    expect("POST", REGIONS "/region/other/register", text, 200, "");
    assert_int_equal(shm_unlink(name), 0);
    expect("POST", INFER, body, 200, "[0.0,0.0,0.0]");
    assert_int_equal(ftruncate(fd, 0), 0);
    expect("POST", INFER, body, 400, "cannot be read");
    (void)close(fd);
    /* max_body_bytes limits these inputs, too. */
    add("all", 0, OBJECT_BYTES, 200, "");
    expect("POST", INFER, large, 413, "max_body_bytes");
    expect("POST", REGIONS "/unregister", "", 200, "");
}

static void test_texts(void **state)
{
    static const char bytes[] = "\2\0\0\0ab\0\0\0\0\1\0\0\0c";
    static const char body[] =
        "{\"inputs\":[{\"name\":\"x\",\"shape\":[3],\"datatype\":\"BYTES\",\"parameters\":{"
        "\"shared_memory_region\":\"in\",\"shared_memory_byte_size\":15}}],\"outputs\":[{\"name\":"
        "\"y\",\"parameters\":{\"shared_memory_region\":\"out\",\"shared_memory_byte_size\":64}}]}";

    (void)state;
    add("in", 0, 15, 200, "");
    add("out", 1024, 64, 200, "");
    memcpy(memory, bytes, 15);
    memset(memory + 256, 0, 64);
    expect("POST", "/v2/models/id_BYTES/infer", body, 200, "\"shared_memory_byte_size\":15}");
    assert_memory_equal(memory + 256, bytes, 15);
    expect("POST", REGIONS "/unregister", "", 200, "");
}

static void call_region(const char *method, const char *name, uint64_t offset, uint64_t bytes, int status,
                        const char *part, grpc_call *call)
{
    Inference__SharedRegion region = INFERENCE__SHARED_REGION__INIT;

    region.name = TEXT(name);
    if (bytes > 0) {
        region.key = key;
        region.offset = offset;
        region.byte_size = bytes;
    }
    *call = (grpc_call){ .path = NULL };
    grpc_add(call, &region.base);
    grpc_expect(grpc_port, method, call, status, part);
}

/* The parameters of a tensor in shared memory. */
struct place {
    Inference__Parameter name, offset, bytes, *list[3];
    Inference__ParameterValue values[3];
};

static void place_init(struct place *place, const char *region, int64_t offset, int64_t bytes)
{
    Inference__Parameter *all[] = { &place->name, &place->offset, &place->bytes };
    static const char *const keys[] = { "shared_memory_region", "shared_memory_offset", "shared_memory_byte_size" };

    for (int i = 0; i < 3; i++) {
        inference__parameter__init(all[i]);
        inference__parameter_value__init(&place->values[i]);
        all[i]->key = TEXT(keys[i]);
        all[i]->value = &place->values[i];
        place->values[i].choice_case =
            i == 0 ? INFERENCE__PARAMETER_VALUE__CHOICE_STRING_VALUE : INFERENCE__PARAMETER_VALUE__CHOICE_INT64_VALUE;
        place->list[i] = all[i];
    }
    place->values[0].string_value = TEXT(region);
    place->values[1].int64_value = offset;
    place->values[2].int64_value = bytes;
}

static void test_grpc(void **state)
{
    static const char status[] = SERVICE "SystemSharedMemoryStatus",
                      add_region[] = SERVICE "SystemSharedMemoryRegister",
                      remove_region[] = SERVICE "SystemSharedMemoryUnregister";
    static int64_t shape[] = { 1, 2 };
    static float numbers[] = { 10, 20 };
    static grpc_call call;
    Inference__SharedStatusReply *regions;
    Inference__InferRequest request = INFERENCE__INFER_REQUEST__INIT;
    Inference__Tensor a = INFERENCE__TENSOR__INIT, b = INFERENCE__TENSOR__INIT, *inputs[] = { &b, &a };
    Inference__WantedTensor wanted = INFERENCE__WANTED_TENSOR__INIT, *outputs = &wanted;
    ProtobufCBinaryData raw = { sizeof numbers, (uint8_t *)numbers };
    Inference__InferReply *reply;
    struct place from, to;

    (void)state;
    call_region(add_region, "in", 0, 8, 0, "", &call);
    call_region(add_region, "out", 1024, 64, 0, "", &call);
    call_region(add_region, "out", 1024, 64, 3, "registered already", &call);
    call_region(status, "out", 0, 0, 0, "", &call);
    regions = grpc_message(&call, 0, &inference__shared_status_reply__descriptor);
    assert_true(regions != NULL && regions->n_regions == 1);
    assert_string_equal(regions->regions[0]->key, "out");
    assert_string_equal(regions->regions[0]->value->key, key);
    assert_int_equal(regions->regions[0]->value->offset, 1024);
    assert_int_equal(regions->regions[0]->value->byte_size, 64);
    protobuf_c_message_free_unpacked(&regions->base, NULL);
    call_region(status, "none", 0, 0, 5, "no shared memory region", &call);

    /* pair: a [N,2] has raw contents, b is in shared memory, and the output goes there. */
    memcpy(memory, (const float[]){ 1, 2 }, 8);
    memset(memory + 256, 0, 64);
    place_init(&from, "in", 0, 8);
    place_init(&to, "out", 8, 56);
    a.name = TEXT("a");
    b.name = TEXT("b");
    a.datatype = b.datatype = TEXT("FP32");
    a.shape = b.shape = shape;
    a.n_shape = b.n_shape = 2;
    b.parameters = from.list;
    b.n_parameters = 3;
    wanted.name = TEXT("y");
    wanted.parameters = to.list;
    wanted.n_parameters = 3;
    request.model_name = TEXT("pair");
    request.inputs = inputs;
    request.n_inputs = 2;
    request.outputs = &outputs;
    request.n_outputs = 1;
    request.raw_input_contents = &raw;
    request.n_raw_input_contents = 1;
    call = (grpc_call){ .path = NULL };
    grpc_add(&call, &request.base);
    grpc_expect(grpc_port, SERVICE "ModelInfer", &call, 0, "");
    reply = grpc_message(&call, 0, &inference__infer_reply__descriptor);
    assert_true(reply != NULL && reply->n_outputs == 1);
    assert_int_equal(reply->outputs[0]->n_parameters, 3);
    assert_string_equal(reply->outputs[0]->parameters[0]->value->string_value, "out");
    assert_int_equal(reply->outputs[0]->parameters[2]->value->int64_value, 8);
    assert_true(reply->n_raw_output_contents == 1 && reply->raw_output_contents[0].len == 0);
    protobuf_c_message_free_unpacked(&reply->base, NULL);
    assert_memory_equal(memory + 258, ((const float[]){ 11, 22 }), 8);

    /* Too many and too few raw contents. */
    request.inputs = inputs;
    request.n_inputs = 1;
    request.model_name = TEXT("pair");
    call = (grpc_call){ .path = NULL };
    grpc_add(&call, &request.base);
    grpc_expect(grpc_port, SERVICE "ModelInfer", &call, 3, "1 raw_input_contents for 1 inputs");
    call_region(remove_region, "", 0, 0, 0, "", &call);
    call_region(SERVICE "CudaSharedMemoryUnregister", "", 0, 0, 0, "", &call); /* as perf_analyzer does next */
    call_region(status, "", 0, 0, 0, "", &call);
    regions = grpc_message(&call, 0, &inference__shared_status_reply__descriptor);
    assert_true(regions != NULL && regions->n_regions == 0);
    protobuf_c_message_free_unpacked(&regions->base, NULL);
}

/* An object for a region, as perf_analyzer makes one for each tensor. */
static float *make_object(const char *name, char *out_key, size_t bytes)
{
    int fd;
    float *numbers;

    (void)snprintf(out_key, bytes, "%s-%s", key, name);
    fd = shm_open(out_key, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0 && ftruncate(fd, 12) == 0);
    numbers = mmap(NULL, 12, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(numbers != MAP_FAILED);
    (void)close(fd);
    return numbers;
}

static void register_rest(const char *region, const char *object_key)
{
    char path[128], body[256];

    (void)snprintf(path, sizeof path, REGIONS "/region/%s/register", region);
    (void)snprintf(body, sizeof body, "{\"key\":\"%s\",\"offset\":0,\"byte_size\":12}", object_key);
    expect("POST", path, body, 200, "");
}

static void unregister_rest(void)
{
    expect("POST", REGIONS "/unregister", "", 200, "");
    expect("POST", "/v2/cudasharedmemory/unregister", "", 200, "");
}

/* Empties the regions, adds one for each output and each input, sends requests, empties the regions. */
static void test_perf_analyzer_rest(void **state)
{
    char x_key[96], y_key[96];
    float *x = make_object("x", x_key, sizeof x_key), *y = make_object("y", y_key, sizeof y_key);

    (void)state;
    unregister_rest();
    register_rest("y", y_key);
    register_rest("x_0_0", x_key);
    (void)shm_unlink(x_key);
    (void)shm_unlink(y_key);
    for (int turn = 0; turn < 3; turn++) {
        char body[512], id[16];

        memcpy(x, (const float[]){ (float)turn, 5, 7 }, 12);
        (void)snprintf(id, sizeof id, "\"id\":\"%d\"", turn);
        (void)snprintf(
            body, sizeof body,
            "{%s,\"inputs\":[" IN(
                "\"shared_memory_region\":\"x_0_0\",\"shared_memory_byte_size\":12") "],"
                                                                                     "\"outputs\":[{\"name\":\"y\","
                                                                                     "\"parameters\":{\"shared_memory_"
                                                                                     "region\":\"y\","
                                                                                     "\"shared_memory_byte_size\":12}}]"
                                                                                     "}",
            id);
        expect("POST", INFER, body, 200, id);
        assert_memory_equal(y, ((const float[]){ 2 * (float)turn, 10, 14 }), 12);
    }
    unregister_rest();
    (void)munmap(x, 12);
    (void)munmap(y, 12);
}

static void register_grpc(const char *region, char *object_key)
{
    Inference__SharedRegion message = INFERENCE__SHARED_REGION__INIT;
    static grpc_call call;

    message.name = TEXT(region);
    message.key = object_key;
    message.byte_size = 12;
    call = (grpc_call){ .path = NULL };
    grpc_add(&call, &message.base);
    grpc_expect(grpc_port, SERVICE "SystemSharedMemoryRegister", &call, 0, "");
}

static void unregister_grpc(void)
{
    static grpc_call call;

    call_region(SERVICE "SystemSharedMemoryUnregister", "", 0, 0, 0, "", &call);
    call_region(SERVICE "CudaSharedMemoryUnregister", "", 0, 0, 0, "", &call);
}

/* The same over gRPC, as unary calls and as one stream; a message has an id, a priority and a time limit. */
static void test_perf_analyzer_grpc(void **state)
{
    static int64_t shape[] = { 1, 3 };
    char x_key[96], y_key[96];
    float *x = make_object("x", x_key, sizeof x_key), *y = make_object("y", y_key, sizeof y_key);
    Inference__InferRequest request = INFERENCE__INFER_REQUEST__INIT;
    Inference__Parameter priority = INFERENCE__PARAMETER__INIT, limit = INFERENCE__PARAMETER__INIT,
                         *parameters[] = { &priority, &limit };
    Inference__ParameterValue numbers[2] = { INFERENCE__PARAMETER_VALUE__INIT, INFERENCE__PARAMETER_VALUE__INIT };
    Inference__Tensor tensor = INFERENCE__TENSOR__INIT, *inputs = &tensor;
    Inference__WantedTensor wanted = INFERENCE__WANTED_TENSOR__INIT, *outputs = &wanted;
    struct place from, to;

    (void)state;
    unregister_grpc();
    register_grpc("y", y_key);
    register_grpc("x_0_0", x_key);
    (void)shm_unlink(x_key);
    (void)shm_unlink(y_key);
    place_init(&from, "x_0_0", 0, 12);
    place_init(&to, "y", 0, 12);
    from.list[1] = from.list[2]; /* an offset of 0 is not sent */
    to.list[1] = to.list[2];
    priority.key = TEXT("priority");
    numbers[0].choice_case = INFERENCE__PARAMETER_VALUE__CHOICE_UINT64_VALUE;
    numbers[0].uint64_value = 1;
    priority.value = &numbers[0];
    limit.key = TEXT("timeout");
    numbers[1].choice_case = INFERENCE__PARAMETER_VALUE__CHOICE_INT64_VALUE;
    numbers[1].int64_value = 60000000;
    limit.value = &numbers[1];
    tensor.name = TEXT("x");
    tensor.datatype = TEXT("FP32");
    tensor.shape = shape;
    tensor.n_shape = 2;
    tensor.parameters = from.list;
    wanted.name = TEXT("y");
    wanted.parameters = to.list;
    tensor.n_parameters = wanted.n_parameters = 2;
    request.model_name = TEXT("twice");
    request.id = TEXT("7");
    request.parameters = parameters;
    request.n_parameters = 2;
    request.inputs = &inputs;
    request.outputs = &outputs;
    request.n_inputs = request.n_outputs = 1;
    for (int streams = 0; streams < 2; streams++) {
        static grpc_call call;

        memcpy(x, (const float[]){ 1, (float)streams, 3 }, 12);
        call = (grpc_call){ .path = NULL };
        grpc_add(&call, &request.base);
        if (streams)
            grpc_add(&call, &request.base);
        grpc_expect(grpc_port, streams ? SERVICE "ModelStreamInfer" : SERVICE "ModelInfer", &call, 0, "");
        assert_memory_equal(y, ((const float[]){ 2, 2 * (float)streams, 6 }), 12);
        if (!streams) {
            Inference__InferReply *reply = grpc_message(&call, 0, &inference__infer_reply__descriptor);

            assert_true(reply != NULL && reply->n_outputs == 1 && reply->outputs[0]->n_parameters > 0);
            assert_string_equal(reply->id, "7");
            protobuf_c_message_free_unpacked(&reply->base, NULL);
        }
    }
    unregister_grpc();
    (void)munmap(x, 12);
    (void)munmap(y, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regions),
        cmocka_unit_test(test_inputs),
        cmocka_unit_test(test_outputs),
        cmocka_unit_test(test_hostile_objects),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_grpc),
        cmocka_unit_test(test_perf_analyzer_rest),
        cmocka_unit_test(test_perf_analyzer_grpc),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, end);
}
