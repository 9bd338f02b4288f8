/* LoRA adapters that requests choose by the name of the model: texts with different adapters share runs, and each has
 * the tokens of a model with the adapter merged into its weights. */
#include "client.h"
#include "adapter_files.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "cmocka_all.h"

enum { WIDTH = 16, ADAPTERS = 3, PROMPTS = 6, TEXT_BYTES = 2048, CLIENTS = 4 };

static struct serving server;
static adapter_files adapters[ADAPTERS];
static char alone[PROMPTS][ADAPTERS + 1][TEXT_BYTES];

/* Adapter 0 changes both weights, 1 and 2 one each, with different ranks and types. */
static void make_adapters(void)
{
    uint64_t seed = 4;

    for (int i = 0; i < ADAPTERS; i++) {
        adapters[i] = (adapter_files){ .rank = 3 + 2 * i, .alpha = 6 };
        if (i != 1)
            adapter_add(&adapters[i], "to_q", WIDTH, WIDTH, "F32", &seed);
        if (i != 2)
            adapter_add(&adapters[i], "to_v", WIDTH, WIDTH, i == 1 ? "BF16" : "F32", &seed);
    }
}

static void write_adapter(const char *model, int adapter)
{
    char path[256];

    (void)snprintf(path, sizeof path, "models/%s/adapters", model);
    serving_folder(&server, path);
    (void)snprintf(path, sizeof path, "%s/models/%s/adapters/a%d", server.folder, model, adapter);
    assert_int_equal(adapter_write(&adapters[adapter], path, ""), 0);
}

/* Models merged0 ... have an adapter merged into their weights; `plain` has the files of all adapters. */
static void prepare(void)
{
    static const char config[] = "options: [reproducible=1]\n";

    serving_prepare_empty(&server);
    make_adapters();
    for (int i = 0; i < ADAPTERS; i++) {
        static float to_q[WIDTH * WIDTH], to_v[WIDTH * WIDTH];
        char name[32];

        memset(to_q, 0, sizeof to_q);
        memset(to_v, 0, sizeof to_v);
        if (i != 1)
            adapter_merge(&adapters[i], 0, to_q);
        if (i != 2)
            adapter_merge(&adapters[i], i == 1 ? 0 : 2, to_v);
        write_decoders_with(to_q, to_v);
        (void)snprintf(name, sizeof name, "merged%d", i);
        serving_model(&server, name, config, write_counted_decoder);
        serving_tokenizer(&server, name, NULL);
    }
    write_decoders_with(NULL, NULL);
    serving_model(&server, "plain", config, write_counted_decoder);
    serving_tokenizer(&server, "plain", NULL);
    for (int i = 0; i < ADAPTERS; i++)
        write_adapter("plain", i);
}

/* The text of a prompt; prompts have their first 40 tokens in common. */
static void ask(const char *model, int prompt, char *out)
{
    static const char *const forms[] = { "\"temperature\":0", "\"temperature\":1,\"n\":2" };
    struct answer answer;
    const char *choices;
    char body[1024], *usage;
    size_t used = (size_t)snprintf(body, sizeof body, "{\"model\":\"%s\",\"max_tokens\":30,\"seed\":%d,%s,\"prompt\":[",
                                   model, prompt, forms[prompt % 2]);

    for (int i = 0; i < 44; i++)
        used += (size_t)snprintf(body + used, sizeof body - used, "%s%d", i > 0 ? "," : "",
                                 33 + (i < 40 ? i * i : i * prompt) % 89);
    (void)snprintf(body + used, sizeof body - used, "]}");
    client_once(&server, "POST", "/v1/completions", "", body, &answer);
    choices = strstr(answer.body, "\"choices\"");
    usage = strstr(answer.body, ",\"usage\"");
    if (usage != NULL)
        *usage = '\0';
    (void)snprintf(out, TEXT_BYTES, "%d %s", answer.code, choices != NULL ? choices : answer.body);
}

/* The name that chooses an adapter, or none. */
static const char *name_of(int adapter, char name[32])
{
    (void)snprintf(name, 32, adapter == ADAPTERS ? "plain" : "plain:a%d", adapter);
    return name;
}

static void test_as_merged(void **state)
{
    char name[32], merged[TEXT_BYTES];

    (void)state;
    for (int i = 0; i < PROMPTS; i++)
        for (int a = 0; a <= ADAPTERS; a++) {
            ask(name_of(a, name), i, alone[i][a]);
            assert_memory_equal(alone[i][a], "200 ", 4);
            if (a < ADAPTERS) {
                (void)snprintf(name, sizeof name, "merged%d", a);
                ask(name, i, merged);
                assert_string_equal(alone[i][a], merged);
            } else {
                assert_string_not_equal(alone[i][a], alone[i][0]);
            }
        }
}

static void *ask_all(void *user)
{
    static char wrong[] = "wrong";
    const int first = *(const int *)user;
    char name[32], text[TEXT_BYTES];

    for (int i = 0; i < PROMPTS * (ADAPTERS + 1); i++) {
        const int k = (first * 7 + i) % (PROMPTS * (ADAPTERS + 1)), prompt = k / (ADAPTERS + 1);
        const int adapter = k % (ADAPTERS + 1);

        ask(name_of(adapter, name), prompt, text);
        if (strcmp(text, alone[prompt][adapter]) != 0)
            return wrong;
    }
    return NULL;
}

static void test_together(void **state)
{
    pthread_t threads[CLIENTS];
    int first[CLIENTS];
    void *wrong;

    (void)state;
    for (int i = 0; i < CLIENTS; i++) {
        first[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, ask_all, &first[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
}

static void test_names(void **state)
{
    (void)state;
    client_expect(&server, "GET", "/v1/models", "", NULL, 200, "\"id\":\"plain:a2\",");
    client_expect(&server, "GET", "/v1/models/plain:a1", "", NULL, 200, "\"parent\":\"plain\"");
    client_expect(&server, "GET", "/v1/models/plain:a3", "", NULL, 404, "model_not_found");
    client_expect(&server, "POST", "/v1/completions", "", "{\"model\":\"plain:a1\",\"prompt\":\"x\",\"max_tokens\":1}",
                  200, "\"model\":\"plain:a1\"");
    client_expect(&server, "POST", "/v1/completions", "", "{\"model\":\"plain:a3\",\"prompt\":\"x\"}", 404,
                  "model_not_found");
    client_expect(&server, "POST", "/v1/completions", "", "{\"model\":\"merged0:a0\",\"prompt\":\"x\"}", 404,
                  "model_not_found");
    client_expect(&server, "POST", "/v1/completions", "", "{\"model\":\"none:a0\",\"prompt\":\"x\"}", 404,
                  "model_not_found");
}

#define LOAD "/v1/load_lora_adapter"
#define UNLOAD "/v1/unload_lora_adapter"

/* Adapters come and go while the server runs, in vLLM's form. */
static void test_changes(void **state)
{
    static const struct {
        const char *path, *body;
        int code;
        const char *part;
    } refused[] = {
        { LOAD, "{\"lora_name\":\"plain:new\",\"lora_path\":\"/etc\"}", 400, "inside the folder of models" },
        { LOAD, "{\"lora_name\":\"plain:new\",\"lora_path\":\"plain/../..\"}", 400, "inside the folder of models" },
        { LOAD, "{\"lora_name\":\"plain:new\",\"lora_path\":\"plain/none\"}", 400, "inside the folder of models" },
        { LOAD, "{\"lora_name\":\"plain:new\",\"lora_path\":\"plain\"}", 404, "cannot be opened" },
        { LOAD, "{\"lora_name\":\"plain:../x\",\"lora_path\":\"plain/adapters/a1\"}", 400, "a name has letters" },
        { LOAD, "{\"lora_name\":\"plain:a1\",\"lora_path\":\"plain/adapters/a1\"}", 400, "load_inplace" },
        { LOAD, "{\"lora_name\":\"none:a1\",\"lora_path\":\"plain/adapters/a1\"}", 404, "no model 'none'" },
        { LOAD, "{\"lora_name\":\"a1\",\"lora_path\":\"plain/adapters/a1\"}", 400, "MODEL:ADAPTER" },
        { LOAD, "{\"lora_name\":\"plain:new\"}", 400, "lora_path is missing" },
        { LOAD, "{\"lora_name\":\"plain:new\",\"lora_int_id\":1}", 400, "the parameters are" },
        { UNLOAD, "{\"lora_name\":\"plain:new\"}", 404, "no adapter 'new'" },
        { UNLOAD, "{\"lora_name\":7}", 400, "byte 13" },
    };
    char text[TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        client_expect(&server, "POST", refused[i].path, AS_ADMIN, refused[i].body, refused[i].code, refused[i].part);
    client_expect(&server, "POST", UNLOAD, "", "{\"lora_name\":\"plain:a0\"}", 401, "");
    client_expect(&server, "POST", LOAD, AS_ADMIN, "{\"lora_name\":\"plain:new\",\"lora_path\":\"plain/adapters/a1\"}",
                  200, "Success: LoRA adapter 'new' added successfully.");
    client_expect(&server, "POST", UNLOAD, AS_ADMIN, "{\"lora_name\":\"plain:a0\"}", 200, "'a0' removed");
    client_expect(&server, "GET", "/v1/models", "", NULL, 200, "\"id\":\"plain:new\",");
    client_expect(&server, "GET", "/v1/models/plain:a0", "", NULL, 404, "model_not_found");
    for (int i = 0; i < PROMPTS; i++) {
        ask("plain:new", i, text);
        assert_string_equal(text, alone[i][1]);
        ask("plain:a2", i, text);
        assert_string_equal(text, alone[i][2]);
    }
    client_expect(&server, "POST", LOAD, AS_ADMIN,
                  "{\"lora_name\":\"plain:new\",\"lora_path\":\"plain/adapters/a2\",\"load_inplace\":true}", 200, "");
    client_expect(&server, "POST", LOAD, AS_ADMIN, "{\"lora_name\":\"plain:a0\",\"lora_path\":\"plain/adapters/a0\"}",
                  200, "");
    ask("plain:new", 0, text);
    assert_string_equal(text, alone[0][2]);
    ask("plain:a0", 0, text);
    assert_string_equal(text, alone[0][0]);
    client_expect(&server, "POST", "/v2/repository/models/plain/load", AS_ADMIN, "{}", 200, ""); /* they stay */
    client_expect(&server, "GET", "/v1/models", "", NULL, 200, "\"id\":\"plain:new\",");
}

/* A model with a damaged adapter is not loaded; the message names the file. */
static void test_damaged(void **state)
{
    (void)state;
    adapters[0].tensors[0].dims[1] = WIDTH - 1;
    write_adapter("merged0", 0);
    client_expect(
        &server, "POST", "/v2/repository/models/merged0/load", AS_ADMIN, "{}", 400,
        "adapters/a0/adapter_model.safetensors: tensor 'base_model.model.to_q.lora_A.weight' has 15 elements");
    client_expect(&server, "POST", "/v1/completions", "", "{\"model\":\"merged0\",\"prompt\":\"x\",\"max_tokens\":1}",
                  200, "\"model\":\"merged0\"");
}

int main(void)
{
    static const char *const flags[] = { "--admin-token-file", "FOLDER/admins", NULL };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_merged), cmocka_unit_test(test_together), cmocka_unit_test(test_names),
        cmocka_unit_test(test_changes),   cmocka_unit_test(test_damaged),
    };
    int failed;

    (void)signal(SIGPIPE, SIG_IGN);
    prepare();
    serving_tokens(&server);
    serving_start(&server, flags);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + (serving_close(&server) != 0);
}
