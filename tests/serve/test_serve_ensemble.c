/* Ensembles: steps in any order, shared tensors, versions, batches, deadlines, reloads of their models; mistakes by
 * line. */
#include "client.h"
#include <stdio.h>
#include <string.h>
#include "cmocka_all.h"

#define HEAD                                                                                                           \
    "platform: \"ensemble\" max_batch_size: 4\n"                                                                       \
    "input { name: \"in\" data_type: TYPE_FP32 dims: 3 }\n"                                                            \
    "output { name: \"out\" data_type: TYPE_FP32 dims: 3 }\n"
#define STEP(model, input, output)                                                                                     \
    "{ model_name: \"" model "\" model_version: -1 input_map { key: \"x\" value: \"" input                             \
    "\" } output_map { key: \"y\" value: \"" output "\" } }"
#define STEPS(list) "ensemble_scheduling { step [\n" list "\n] }\n"
#define ROWS(count, data)                                                                                              \
    "{\"inputs\":[{\"name\":\"in\",\"shape\":[" count "],\"datatype\":\"FP32\",\"data\":[" data "]}]}"

static struct serving server;

static void write_ensemble(const char *name, const char *text)
{
    char path[128];

    (void)snprintf(path, sizeof path, "models/%s", name);
    serving_folder(&server, path);
    (void)snprintf(path, sizeof path, "models/%s/config.pbtxt", name);
    serving_file(&server, path, text, 0644);
}

static int start(void **state)
{
    static const char *const flags[] = { "--admin-token-file", "FOLDER/admins", "--max-batch", "8", NULL };

    *state = &server;
    serving_prepare(&server);
    serving_tokens(&server);
    serving_folder(&server, "models/chain/7");
    write_ensemble("chain", HEAD STEPS(STEP("triple", "middle", "out") ",\n" STEP("twice", "in", "middle")));
    write_ensemble("a_sum",
                   "platform: \"ensemble\"\n" /* its name is before those of its models */
                   "input [ { name: \"in\" data_type: TYPE_FP32 dims: [ -1, 2 ] } ]\n"
                   "output [ { name: \"two\" data_type: TYPE_FP32 dims: [ -1, 2 ] },\n"
                   "  { name: \"three\" data_type: TYPE_FP32 dims: [ -1, 2 ] } ]\n"
                   "ensemble_scheduling { step [\n"
                   " { model_name: \"pair\" input_map [ { key: \"a\" value: \"in\" }, { key: \"b\" value: \"in\" } ]\n"
                   "   output_map { key: \"y\" value: \"two\" } },\n"
                   " { model_name: \"pair\" model_version: 1\n"
                   "   input_map { key: \"a\" value: \"two\" } input_map { key: \"b\" value: \"in\" }\n"
                   "   output_map { key: \"y\" value: \"three\" } } ] }\n");
    write_ensemble(
        "slow", "platform: \"ensemble\"\n"
                "input [ { name: \"n\" data_type: TYPE_INT64 }, { name: \"x\" data_type: TYPE_FP32 dims: [ 4, 4 ] } ]\n"
                "output { name: \"y\" data_type: TYPE_FP32 dims: [ 4, 4 ] }\n"
                "ensemble_scheduling { step { model_name: \"spin\"\n"
                "  input_map [ { key: \"n\" value: \"n\" }, { key: \"x\" value: \"x\" } ]\n"
                "  output_map { key: \"y\" value: \"y\" } } }\n");
    serving_start(&server, flags);
    return 0;
}

static void expect(const char *method, const char *path, const char *body, int code, const char *part)
{
    client_expect(&server, method, path, AS_ADMIN, body, code, part);
}

static void test_infer(void **state)
{
    (void)state;
    expect("POST", "/v2/models/chain/infer", ROWS("1,3", "1,2,3"), 200,
           "\"outputs\":[{\"name\":\"out\",\"datatype\":\"FP32\",\"shape\":[1,3],\"data\":[8.0,16.0,24.0]}]");
    expect("POST", "/v2/models/chain/infer", ROWS("2,3", "1,2,3,4,5,6"), 200, "[8.0,16.0,24.0,32.0,40.0,48.0]");
    expect("POST", "/v2/models/chain/versions/7/infer", ROWS("1,3", "1,2,3"), 200, "\"model_version\":\"7\"");
    expect("POST", "/v2/models/a_sum/infer", ROWS("1,2", "1,2"), 200, "\"data\":[2.0,4.0]");
    expect("POST", "/v2/models/a_sum/infer", ROWS("1,2", "1,2"), 200, "\"data\":[3.0,6.0]");
    expect("POST", "/v2/models/chain/infer", ROWS("1,2", "1,2"), 400, "input 'in' has shape [1,2]");
}

static void test_metadata(void **state)
{
    (void)state;
    expect("GET", "/v2/models/chain", NULL, 200,
           "\"versions\":[\"7\"],\"platform\":\"ensemble\",\"inputs\":[{\"name\":\"in\",\"datatype\":\"FP32\","
           "\"shape\":[-1,3]}]");
    expect("GET", "/v2/models/a_sum", NULL, 200, "\"versions\":[\"1\"]");
    expect("GET", "/v2/models/chain/config", NULL, 200,
           "\"ensemble_scheduling\":{\"step\":[{\"model_name\":\"triple\",\"model_version\":-1,"
           "\"input_map\":{\"x\":\"middle\"},\"output_map\":{\"y\":\"out\"}}");
}

/* The runs of the steps are runs of their models. */
static void test_figures(void **state)
{
    double before = client_metric(&server, "inlay_compute_seconds_count{model=\"triple\",version=\"2\"}");

    (void)state;
    for (uint32_t i = 0; i < 5; i++)
        expect("POST", "/v2/models/chain/infer", ROWS("1,3", "1,2,3"), 200, "[8.0,16.0,24.0]");
    assert_true(client_metric(&server, "inlay_compute_seconds_count{model=\"triple\",version=\"2\"}") == before + 5);
}

static void test_deadline(void **state)
{
    (void)state;
    expect("POST", "/v2/models/slow/infer",
           "{\"parameters\":{\"timeout\":50000},\"inputs\":[{\"name\":\"n\",\"shape\":[],\"datatype\":\"INT64\","
           "\"data\":[1000000000000]},{\"name\":\"x\",\"shape\":[4,4],\"datatype\":\"FP32\","
           "\"data\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}]}",
           504, "");
}

/* A new version of a model is used by the ensembles that run it. */
static void test_reload(void **state)
{
    char path[256];

    (void)state;
    write_doubling(serving_path(&server, "models/twice.onnx", path, sizeof path), 3);
    expect("POST", "/v2/repository/models/twice/load", "", 200, "");
    expect("POST", "/v2/models/chain/infer", ROWS("1,3", "1,2,3"), 200, "[32.0,64.0,96.0]");
    expect("POST", "/v2/repository/models/twice/unload", "", 200, "");
    expect("POST", "/v2/models/twice/infer", ROWS("1,3", "1,2,3"), 404, "");
    expect("POST", "/v2/models/chain/infer", ROWS("1,3", "1,2,3"), 200, "[32.0,64.0,96.0]");
    expect("POST", "/v2/repository/models/twice/load", "", 200, "");
}

static void test_mistakes(void **state)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        { HEAD, "config.pbtxt:1: platform: an ensemble needs ensemble_scheduling" },
        { HEAD STEPS(""), "config.pbtxt:4: ensemble_scheduling: it has no step" },
        { "ensemble_scheduling {}", "config.pbtxt:1: ensemble_scheduling: the platform is not ensemble" },
        { "platform: \"ensemble\" backend: \"inlay\" ensemble_scheduling {}", "backend: an ensemble has none" },
        { "platform: \"ensemble\"\n" STEPS(STEP("twice", "in", "out")), "input: an ensemble needs it" },
        { HEAD STEPS(STEP("twixe", "in", "out")), "config.pbtxt:5: model_name: no model 'twixe' is loaded" },
        { HEAD STEPS(STEP("chain", "in", "out")), "config.pbtxt:5: model_name: 'chain' is an ensemble" },
        { HEAD STEPS(STEP("twice", "in", "m")), "config.pbtxt:3: name: no step makes the output 'out'" },
        { HEAD STEPS(STEP("twice", "in", "in")), "config.pbtxt:5: output_map: tensor 'in' is an input" },
        { HEAD STEPS(STEP("twice", "in", "m") ",\n" STEP("twice", "in", "m")),
          "config.pbtxt:6: output_map: tensor 'm' is made twice" },
        { HEAD STEPS(STEP("twice", "in", "m") ",\n" STEP("twice", "q", "out")),
          "config.pbtxt:6: input_map: tensor 'q' is neither an input of the ensemble nor made by a step" },
        { HEAD STEPS(STEP("twice", "in", "out") ",\n" STEP("twice", "b", "a") ",\n" STEP("triple", "a", "b")),
          "input_map: the steps form a cycle: tensor" },
        { HEAD STEPS(STEP("twice", "out", "out")), "config.pbtxt:5: input_map: the steps form a cycle: tensor 'out'" },
        { HEAD STEPS(STEP("id_INT64", "in", "out")), "config.pbtxt:2: data_type: 'in' is INT64 in the model" },
        { HEAD STEPS(STEP("twice", "in", "m") ",\n" STEP("id_FP32", "m", "out")),
          "config.pbtxt:6: input_map: tensor 'm' does not have the type or the shape of input 'x' of model 'id_FP32'" },
        { HEAD STEPS("{ model_name: \"pair\" input_map { key: \"a\" value: \"in\" } }"),
          "config.pbtxt:5: input_map: input 'b' of model 'pair' is missing" },
        { HEAD STEPS("{ model_name: \"twice\" input_map { key: \"z\" value: \"in\" } }"),
          "config.pbtxt:5: input_map: model 'twice' has no input 'z'" },
        { HEAD "input { name: \"other\" data_type: TYPE_FP32 dims: 3 }\n" STEPS(STEP("twice", "in", "out")),
          "config.pbtxt:4: name: no step uses the input 'other'" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_ensemble("wrong", rows[i].text);
        expect("POST", "/v2/repository/models/wrong/load", "", 400, rows[i].part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_infer),    cmocka_unit_test(test_metadata), cmocka_unit_test(test_figures),
        cmocka_unit_test(test_deadline), cmocka_unit_test(test_reload),   cmocka_unit_test(test_mistakes),
    };

    return cmocka_run_group_tests(tests, start, serving_tear_down);
}
