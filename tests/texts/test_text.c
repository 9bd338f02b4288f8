/* inlay/text.h: tokens, chats, embeddings, and texts, which are those of inlay-serve. */
#include "client.h"
#include "adapter_files.h"
#include "inlay/text.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "cmocka_all.h"

static struct serving server;

static const char tokenizer_config[] =
    "{\"bos_token\": \"<s>\", \"chat_template\": \"{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"
    "{% if tools %}{{ tools[0].function.name }}{% endif %}{% if add_generation_prompt %}>{{ mood }}{% endif %}\"}";

enum { WIDTH = 16, ADAPTERS = 2 };

/* Adapters "first" and "second" of the model counted. */
static const char *const adapter_names[ADAPTERS] = { "first", "second" };

static void write_adapters(void)
{
    static adapter_files adapters[ADAPTERS];
    uint64_t seed = 4;
    char path[256];

    serving_folder(&server, "models/counted/adapters");
    for (int i = 0; i < ADAPTERS; i++) {
        adapters[i] = (adapter_files){ .rank = 3, .alpha = 6 };
        adapter_add(&adapters[i], i == 0 ? "to_q" : "to_v", WIDTH, WIDTH, "F32", &seed);
        (void)snprintf(path, sizeof path, "%s/models/counted/adapters/%s", server.folder, adapter_names[i]);
        assert_int_equal(adapter_write(&adapters[i], path, ""), 0);
    }
}

/* Models of printable characters: one that continues a text of n by the n-th letter and those after it, and one with
 * attention. */
static int prepare(void **state)
{
    (void)state;
    serving_prepare(&server);
    serving_model(&server, "count", "options: [state=old=new]\n", write_counting);
    serving_tokenizer(&server, "count", NULL);
    serving_file(&server, "models/count/config.json", "{\"eos_token_id\": 122}", 0644);
    serving_file(&server, "models/count/tokenizer_config.json", tokenizer_config, 0644);
    serving_model(&server, "masked", NULL, write_masked_decoder);
    serving_tokenizer(&server, "masked", NULL);
    serving_model(&server, "sum", NULL, write_sum);
    serving_model(&server, "vectors", NULL, write_vectors);
    serving_tokenizer(&server, "vectors", NULL);
    serving_model(&server, "counted", NULL, write_counted_decoder);
    serving_tokenizer(&server, "counted", NULL);
    write_adapters();
    serving_model(&server, "rounding", "options: [state=past_key=new]\n", write_rounding_decoder);
    serving_tokenizer(&server, "rounding", NULL);
    serving_file(&server, "models/rounding/tokenizer_config.json", tokenizer_config, 0644);
    serving_start(&server, (const char *const[]){ "--option", "reproducible=1", NULL });
    return 0;
}

/* The options that ctest sets. */
static inlay_options *environment(void)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;

    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    assert_int_equal(inlay_options_load_environment(options, &diag), INLAY_OK);
    return options;
}

static uint32_t most_tokens; /* of a text; 0: no limit */

static inlay_text_model *open_model(const char *name, const char *draft, uint32_t lookup)
{
    inlay_text_options how = { .struct_size = sizeof how, .lookup_tokens = lookup, .context = most_tokens };
    char file[64], path[256], draft_path[256];
    inlay_text_model *model = NULL;
    inlay_options *options = environment();
    inlay_diag diag = INLAY_DIAG_INIT;

    assert_int_equal(inlay_options_set(options, "reproducible", "1", &diag), INLAY_OK);
    if (strcmp(name, "count") == 0)
        assert_int_equal(inlay_options_set(options, "state", "old=new", &diag), INLAY_OK);
    how.options = options;
    (void)snprintf(file, sizeof file, "models/%s/1/model.onnx", name);
    if (draft != NULL) {
        char draft_file[64];

        (void)snprintf(draft_file, sizeof draft_file, "models/%s/1/model.onnx", draft);
        how.draft = serving_path(&server, draft_file, draft_path, sizeof draft_path);
    }
    if (inlay_text_model_create(serving_path(&server, file, path, sizeof path), &how, &model, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(options);
    return model;
}

static inlay_text *begin(inlay_text_model *model, const inlay_text_request *request)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_text *text = NULL;

    if (inlay_text_create(model, request, &text, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return text;
}

/* Adds the next piece to `out`. */
static void take(inlay_text *text, char *out, size_t bytes)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    const char *piece;
    size_t count;

    if (inlay_text_take(text, &piece, &count, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(strlen(piece), count);
    assert_true(strlen(out) + count < bytes);
    strcat(out, piece);
}

static inlay_text_info describe(const inlay_text *text)
{
    inlay_text_info info = { .struct_size = sizeof info };

    assert_int_equal(inlay_text_describe(text, &info), INLAY_OK);
    return info;
}

/* Generates a text alone. Returns why it ended. */
static uint32_t generate(inlay_text_model *model, const inlay_text_request *request, char *out, size_t bytes)
{
    inlay_text *text = begin(model, request);
    uint32_t running, state;

    out[0] = '\0';
    do {
        running = inlay_text_model_step(model);
        take(text, out, bytes);
    } while (running > 0);
    state = describe(text).state;
    inlay_text_destroy(text);
    return state;
}

/* A shorter context ends a text, and is what the model is said to have. */
static void test_context(void **state)
{
    inlay_text_model_info info = { .struct_size = sizeof info };
    inlay_text_request request = INLAY_TEXT_REQUEST_INIT;
    inlay_text_model *model;
    char text[16];

    (void)state;
    most_tokens = 7;
    model = open_model("count", NULL, 0);
    most_tokens = 0;
    assert_int_equal(inlay_text_model_describe(model, &info), INLAY_OK);
    assert_int_equal(info.context, 7);
    request.prompt = "abc";
    request.temperature = 0;
    assert_int_equal(generate(model, &request, text, sizeof text), INLAY_TEXT_LENGTH);
    assert_string_equal(text, "CDEF");
    inlay_text_model_destroy(model);
}

static void test_ends(void **state)
{
    static const char *const stops[] = { "HI", "zz" };
    inlay_text_model_info info = { .struct_size = sizeof info };
    inlay_text_model *model = open_model("count", NULL, 0);
    inlay_text_request request = INLAY_TEXT_REQUEST_INIT;
    char text[256];

    (void)state;
    assert_int_equal(inlay_text_model_describe(model, &info), INLAY_OK);
    assert_int_equal(info.vocabulary, 127);
    assert_int_equal(info.end_count, 1);
    assert_int_equal(info.ends[0], 'z');
    assert_true(info.has_template && !info.assumes_chat_ml && info.context == 0 && info.runs == 0);
    assert_int_equal(inlay_session_input_count(info.session), 2);
    request.prompt = "abc";
    request.temperature = 0;
    assert_int_equal(generate(model, &request, text, sizeof text), INLAY_TEXT_END);
    assert_string_equal(text, "CDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxy");
    request.max_tokens = 4;
    assert_int_equal(generate(model, &request, text, sizeof text), INLAY_TEXT_LENGTH);
    assert_string_equal(text, "CDEF");
    request.max_tokens = 0;
    request.stops = stops;
    request.stop_count = 2;
    assert_int_equal(generate(model, &request, text, sizeof text), INLAY_TEXT_END);
    assert_string_equal(text, "CDEFG");
    request.stop_count = 0;
    request.flags = INLAY_TEXT_IGNORE_ENDS;
    request.max_tokens = 60;
    assert_int_equal(generate(model, &request, text, sizeof text), INLAY_TEXT_LENGTH);
    assert_non_null(strstr(text, "xy"));
    request.flags = 0;
    request.min_tokens = 60;
    assert_int_equal(generate(model, &request, text, sizeof text), INLAY_TEXT_LENGTH);
    assert_non_null(strstr(text, "xy"));
    request.min_tokens = 55;
    assert_int_equal(generate(model, &request, text, sizeof text), INLAY_TEXT_END);
    request.min_tokens = INLAY_NONE;
    request.prompt = "aB";
    request.max_tokens = 1;
    assert_int_equal(generate(model, &request, text, sizeof text), INLAY_TEXT_LENGTH);
    assert_string_equal(text, "B");
    request.no_repeat_ngram_size = 1;
    assert_int_equal(generate(model, &request, text, sizeof text), INLAY_TEXT_LENGTH);
    assert_string_not_equal(text, "B");
    request.no_repeat_ngram_size = 2;
    assert_int_equal(generate(model, &request, text, sizeof text), INLAY_TEXT_LENGTH);
    assert_string_equal(text, "B");
    inlay_text_model_destroy(model);
}

/* Generates a text with `inlay generate`. */
static void generate_by_command(const char *prompt, uint32_t seed, char *out, size_t bytes)
{
    char line[1024], path[256], *reply = calloc(1, 65536);
    FILE *command;
    json_t *json;

    (void)snprintf(line, sizeof line,
                   INLAY_CLI " generate %s --prompt %s --temperature 0.7 --top-p 0.9 --typical-p 0.95 "
                             "--seed %u --tokens 60 "
                             "--reproducible 1 --json",
                   serving_path(&server, "models/masked/1/model.onnx", path, sizeof path), prompt, seed);
    command = popen(line, "r");
    assert_non_null(command);
    assert_non_null(reply);
    (void)fread(reply, 1, 65535, command);
    assert_int_equal(pclose(command), 0);
    json = json_loads(reply, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(json, "reason")), "length");
    (void)snprintf(out, bytes, "%s", json_string_value(json_object_get(json, "text")));
    json_decref(json);
    free(reply);
}

/* The texts of all prompts at once are those of the server, also with guesses, and of the command line. */
static void test_same_as_server(void **state)
{
    enum { TEXTS = 5 };
    static const char *const prompts[TEXTS] = { "a", "bcdefghij", "hello", "kl", "zyx" };
    static char expected[TEXTS][512], got[TEXTS][512];
    static struct answer answer;

    (void)state;
    for (uint32_t i = 0; i < TEXTS; i++) {
        char body[256];
        json_t *reply;

        (void)snprintf(body, sizeof body,
                       "{\"model\":\"masked\",\"prompt\":\"%s\",\"temperature\":0.7,\"top_p\":0.9,"
                       "\"typical_p\":0.95,\"seed\":%u,\"max_tokens\":60}",
                       prompts[i], i);
        client_once(&server, "POST", "/v1/completions", "Content-Type: application/json\r\n", body, &answer);
        assert_int_equal(answer.code, 200);
        reply = json_loads(answer.body, 0, NULL);
        (void)snprintf(
            expected[i], sizeof expected[i], "%s",
            json_string_value(json_object_get(json_array_get(json_object_get(reply, "choices"), 0), "text")));
        json_decref(reply);
    }
    for (uint32_t i = 0; i < TEXTS; i++) {
        generate_by_command(prompts[i], i, got[i], sizeof got[i]);
        assert_string_equal(got[i], expected[i]);
    }
    for (int variant = 0; variant < 3; variant++) {
        inlay_text_model *model = open_model("masked", variant == 1 ? "masked" : NULL, variant == 2 ? 4 : 0);
        inlay_text_model_info info = { .struct_size = sizeof info };
        inlay_text *texts[TEXTS];
        uint32_t running;

        for (uint32_t i = 0; i < TEXTS; i++) {
            inlay_text_request request = INLAY_TEXT_REQUEST_INIT;

            request.prompt = prompts[i];
            request.temperature = 0.7f;
            request.top_p = 0.9f;
            request.typical_p = 0.95f;
            request.seed = i;
            request.max_tokens = 60;
            got[i][0] = '\0';
            texts[i] = begin(model, &request);
            if (variant > 0) /* runs of one text have guesses */
                while (inlay_text_model_step(model) > 0)
                    continue;
        }
        do {
            running = inlay_text_model_step(model);
            for (uint32_t i = 0; i < TEXTS; i++)
                take(texts[i], got[i], sizeof got[i]);
        } while (running > 0);
        assert_int_equal(inlay_text_model_describe(model, &info), INLAY_OK);
        assert_null(info.warning);
        for (uint32_t i = 0; i < TEXTS; i++) {
            const inlay_text_info text = describe(texts[i]);

            assert_string_equal(got[i], expected[i]);
            assert_int_equal(text.state, INLAY_TEXT_LENGTH);
            assert_int_equal(text.prompt_tokens, strlen(prompts[i]));
            assert_int_equal(text.generated_tokens, 60);
            assert_int_equal(text.tokens[0], prompts[i][0]);
            assert_true(text.reused_tokens < text.prompt_tokens);
            inlay_text_destroy(texts[i]);
        }
        assert_true(variant != 1 || info.right_tokens > 0);
        assert_true(info.guessed_tokens >= info.right_tokens && info.runs > 0 && info.together <= 1);
        inlay_text_model_destroy(model);
    }
}

static void test_tokens(void **state)
{
    inlay_text_model *model = open_model("count", NULL, 0);
    inlay_diag diag = INLAY_DIAG_INIT;
    int64_t tokens[8] = { 0 };
    char text[16];
    size_t count, bytes;

    (void)state;
    assert_int_equal(inlay_text_model_tokenize(model, "abc", 3, 0, NULL, 0, &count, &diag), INLAY_OK);
    assert_int_equal(count, 3);
    assert_int_equal(inlay_text_model_tokenize(model, "abcdef", 4, INLAY_TEXT_RENDERED, tokens, 8, &count, &diag),
                     INLAY_OK);
    assert_int_equal(count, 4);
    assert_int_equal(tokens[3], 'd');
    assert_int_equal(inlay_text_model_tokenize(model, "xyz", 3, 0, tokens, 2, &count, &diag), INLAY_LIMIT_EXCEEDED);
    assert_int_equal(count, 3);
    assert_true(tokens[0] == 'x' && tokens[1] == 'y' && tokens[2] == 'c');
    assert_int_equal(inlay_text_model_tokenize(model, "a\0b", 3, 0, tokens, 8, &count, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_text_model_tokenize(model, "a", 1, 8, tokens, 8, &count, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_text_model_detokenize(model, tokens, 2, NULL, 0, &bytes, &diag), INLAY_OK);
    assert_int_equal(bytes, 3);
    assert_int_equal(inlay_text_model_detokenize(model, tokens, 2, text, sizeof text, &bytes, &diag), INLAY_OK);
    assert_string_equal(text, "xy");
    assert_int_equal(inlay_text_model_detokenize(model, tokens, 2, text, 2, &bytes, &diag), INLAY_LIMIT_EXCEEDED);
    assert_string_equal(text, "x");
    tokens[0] = 500;
    assert_int_equal(inlay_text_model_detokenize(model, tokens, 1, text, 2, &bytes, &diag), INLAY_NOT_FOUND);
    assert_non_null(strstr(diag.text, "500"));
    inlay_text_model_destroy(model);
}

static void test_chats(void **state)
{
    static const inlay_text_message messages[] = { { .role = "system", .content = "s" }, { "user", "u" } },
                                    bad = { "user", "\xff" };
    inlay_text_model *model = open_model("count", NULL, 0), *without = open_model("masked", NULL, 0);
    inlay_text_chat chat = { .struct_size = sizeof chat, .messages = messages, .message_count = 2 };
    inlay_diag diag = INLAY_DIAG_INIT;
    char text[64];
    size_t bytes;

    (void)state;
    assert_int_equal(inlay_text_model_chat(model, &chat, text, sizeof text, &bytes, &diag), INLAY_OK);
    assert_string_equal(text, "system:s;user:u;>");
    assert_int_equal(bytes, 18);
    assert_int_equal(inlay_text_model_chat(model, &chat, text, 4, &bytes, &diag), INLAY_LIMIT_EXCEEDED);
    assert_string_equal(text, "sys");
    chat.variables = "{\"mood\": \"!\"}";
    chat.tools = "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]";
    assert_int_equal(inlay_text_model_chat(model, &chat, text, sizeof text, &bytes, &diag), INLAY_OK);
    assert_string_equal(text, "system:s;user:u;f>!");
    chat.json = "[]";
    assert_int_equal(inlay_text_model_chat(model, &chat, text, sizeof text, &bytes, &diag), INLAY_INVALID_ARGUMENT);
    chat.message_count = 0;
    chat.json = "[{\"role\": \"x\", \"content\": \"y\"}]";
    assert_int_equal(inlay_text_model_chat(model, &chat, text, sizeof text, &bytes, &diag), INLAY_OK);
    assert_string_equal(text, "x:y;f>!");
    chat.json = "[{]";
    assert_int_equal(inlay_text_model_chat(model, &chat, text, sizeof text, &bytes, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "messages, line 1"));
    chat.json = NULL;
    chat.variables = "[]";
    assert_int_equal(inlay_text_model_chat(model, &chat, text, sizeof text, &bytes, &diag), INLAY_INVALID_ARGUMENT);
    assert_string_equal(diag.text, "variables: not a JSON object");
    chat.variables = NULL;
    chat.messages = &bad;
    chat.message_count = 1;
    assert_int_equal(inlay_text_model_chat(model, &chat, text, sizeof text, &bytes, &diag), INLAY_INVALID_ARGUMENT);
    chat.messages = messages;
    assert_int_equal(inlay_text_model_chat(without, &chat, text, sizeof text, &bytes, &diag), INLAY_NOT_FOUND);
    chat.struct_size = 0;
    assert_int_equal(inlay_text_model_chat(model, &chat, text, sizeof text, &bytes, &diag), INLAY_INVALID_ARGUMENT);
    inlay_text_model_destroy(model);
    inlay_text_model_destroy(without);
}

static void test_forms(void **state)
{
    inlay_text_model *model = open_model("masked", NULL, 0);
    inlay_text_request request = INLAY_TEXT_REQUEST_INIT;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_text *none;
    char text[256];

    (void)state;
    request.prompt = "a";
    request.schema = "{\"type\": \"array\", \"items\": {\"enum\": [1, 22, true]}, \"minItems\": 3, \"maxItems\": 3}";
    for (request.seed = 0; request.seed < 4; request.seed++) {
        json_t *value;

        assert_int_equal(generate(model, &request, text, sizeof text), INLAY_TEXT_END);
        value = json_loads(text, 0, NULL);
        assert_int_equal(json_array_size(value), 3);
        json_decref(value);
    }
    request.schema = NULL;
    request.grammar = "root ::= (\"left\" | \"right\") [0-9]";
    assert_int_equal(generate(model, &request, text, sizeof text), INLAY_TEXT_END);
    assert_true(strlen(text) == 5 + (text[0] == 'r'));
    request.max_tokens = 2;
    assert_int_equal(generate(model, &request, text, sizeof text), INLAY_TEXT_LENGTH);
    request.grammar = "root := x";
    assert_int_equal(inlay_text_create(model, &request, &none, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(strncmp(diag.text, "grammar: ", 9), 0);
    request.schema = "{\"type\": 5}";
    assert_int_equal(inlay_text_create(model, &request, &none, &diag), INLAY_INVALID_ARGUMENT);
    request.grammar = NULL;
    assert_int_equal(inlay_text_create(model, &request, &none, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(strncmp(diag.text, "schema: ", 8), 0);
    assert_null(none);
    inlay_text_model_destroy(model);
}

/* Texts that are stopped or destroyed in progress leave the others as they are. */
static void test_stop(void **state)
{
    inlay_text_model *model = open_model("masked", NULL, 0);
    inlay_text_request request = INLAY_TEXT_REQUEST_INIT;
    char expected[256], got[256] = "", stopped[256] = "";
    inlay_text *texts[3];

    (void)state;
    request.prompt = "hello";
    request.temperature = 0;
    request.max_tokens = 40;
    (void)generate(model, &request, expected, sizeof expected);
    for (int i = 0; i < 3; i++)
        texts[i] = begin(model, &request);
    for (int i = 0; i < 12; i++)
        assert_int_equal(inlay_text_model_step(model), 3);
    inlay_text_stop(texts[0]);
    inlay_text_destroy(texts[1]);
    while (inlay_text_model_step(model) > 0)
        continue;
    take(texts[0], stopped, sizeof stopped);
    take(texts[2], got, sizeof got);
    assert_string_equal(got, expected);
    assert_int_equal(strncmp(expected, stopped, strlen(stopped)), 0);
    assert_true(strlen(stopped) < strlen(expected));
    assert_int_equal(describe(texts[0]).state, INLAY_TEXT_STOPPED);
    inlay_text_destroy(texts[0]);
    inlay_text_destroy(texts[2]);
    inlay_text_destroy(begin(model, &request));
    inlay_text_destroy(NULL);
    inlay_text_model_destroy(model); /* with a text in progress */
    inlay_text_model_destroy(NULL);
}

static void test_refused(void **state)
{
    static const struct {
        float temperature, top_p, min_p, repetition, presence, frequency;
        const char *part;
    } numbers[] = { { 3, -1, -1, -1, 0, 0, "temperature" },
                    { -1, 2, -1, -1, 0, 0, "top_p" },
                    { -1, -1, 2, -1, 0, 0, "min_p" },
                    { -1, -1, -1, 0, 0, 0, "repetition_penalty" },
                    { -1, -1, -1, -1, 3, 0, "presence_penalty" },
                    { -1, -1, -1, -1, 0, -3, "frequency_penalty" } };
    static const char *const empty[] = { "" };
    static const int64_t unknown[] = { 97, 500 };
    static const inlay_text_image image = { .data = "a", .bytes = 1 };
    inlay_text_model *model = open_model("count", NULL, 0), *none;
    inlay_text_options options = { .struct_size = sizeof options };
    inlay_text_request request = INLAY_TEXT_REQUEST_INIT;
    inlay_options *session = environment();
    inlay_diag diag = INLAY_DIAG_INIT;
    char path[256];
    inlay_text *text;

    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        request = (inlay_text_request)INLAY_TEXT_REQUEST_INIT;
        request.prompt = "a";
        request.temperature = numbers[i].temperature;
        request.top_p = numbers[i].top_p;
        request.min_p = numbers[i].min_p;
        request.repetition_penalty = numbers[i].repetition;
        request.presence_penalty = numbers[i].presence;
        request.frequency_penalty = numbers[i].frequency;
        assert_int_equal(inlay_text_create(model, &request, &text, &diag), INLAY_INVALID_ARGUMENT);
        assert_non_null(strstr(diag.text, numbers[i].part));
    }
    request = (inlay_text_request)INLAY_TEXT_REQUEST_INIT;
    assert_int_equal(inlay_text_create(model, &request, &text, &diag), INLAY_INVALID_ARGUMENT); /* no prompt */
    request.tokens = unknown;
    request.token_count = 2;
    request.top_k = 5;
    assert_int_equal(inlay_text_create(model, &request, &text, &diag), INLAY_NOT_FOUND);
    request.prompt = "a";
    assert_int_equal(inlay_text_create(model, &request, &text, &diag), INLAY_INVALID_ARGUMENT);
    request.token_count = 0;
    request.stops = empty;
    request.stop_count = 1;
    assert_int_equal(inlay_text_create(model, &request, &text, &diag), INLAY_INVALID_ARGUMENT);
    request.stop_count = 0;
    request.max_tokens = 2;
    request.min_tokens = 3;
    assert_int_equal(inlay_text_create(model, &request, &text, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "min_tokens is larger than max_tokens"));
    request.min_tokens = INLAY_NONE;
    request.flags = 1u << 9;
    assert_int_equal(inlay_text_create(model, &request, &text, &diag), INLAY_INVALID_ARGUMENT);
    request.struct_size = 0;
    assert_int_equal(inlay_text_create(model, &request, &text, &diag), INLAY_INVALID_ARGUMENT);
    inlay_text_model_destroy(model);

    (void)serving_path(&server, "models/sum/1/model.onnx", path, sizeof path);
    options.options = session;
    assert_int_equal(inlay_text_model_create(path, &options, &none, &diag), INLAY_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "input_ids"));
    assert_int_equal(inlay_text_model_create("/nowhere", NULL, &none, &diag), INLAY_NOT_FOUND);
    options.max_texts = 100000;
    (void)serving_path(&server, "models/masked/1/model.onnx", path, sizeof path);
    assert_int_equal(inlay_text_model_create(path, &options, &none, &diag), INLAY_INVALID_ARGUMENT);
    options.max_texts = 1;
    options.draft_tokens = 17;
    assert_int_equal(inlay_text_model_create(path, &options, &none, &diag), INLAY_INVALID_ARGUMENT);
    options.draft_tokens = 0;
    options.variant = "q4";
    assert_int_equal(inlay_text_model_create(path, &options, &none, &diag), INLAY_INVALID_ARGUMENT);
    options.variant = NULL;
    options.tokenizer = "/nowhere/tokenizer.json";
    assert_int_equal(inlay_text_model_create(path, &options, &none, &diag), INLAY_INVALID_ARGUMENT);
    options.tokenizer = NULL;
    options.vision = path; /* the model itself */
    assert_int_equal(inlay_text_model_create(path, &options, &none, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "it is no vision part"));
    options.vision = NULL;
    options.kv_memory = 1; /* byte */
    assert_int_equal(inlay_text_model_create(path, &options, &model, &diag), INLAY_OK);
    request = (inlay_text_request)INLAY_TEXT_REQUEST_INIT;
    request.prompt = "a";
    assert_int_equal(inlay_text_create(model, &request, &text, &diag), INLAY_LIMIT_EXCEEDED);
    request.images = &image;
    request.image_count = 1;
    assert_int_equal(inlay_text_create(model, &request, &text, &diag), INLAY_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "without a vision part"));
    inlay_text_model_destroy(model);
    options.struct_size = 0;
    assert_int_equal(inlay_text_model_create(path, &options, &none, &diag), INLAY_INVALID_ARGUMENT);
    assert_null(none);
    inlay_options_destroy(session);
}

/* The text that the server completes "abc" by, with an adapter of the model or NULL. */
static void complete_by_server(const char *adapter, char *out, size_t bytes)
{
    static struct answer answer;
    char body[256];
    json_t *reply;

    (void)snprintf(body, sizeof body,
                   "{\"model\":\"counted%s%s\",\"prompt\":\"abc\",\"temperature\":0,\"max_tokens\":40}",
                   adapter != NULL ? ":" : "", adapter != NULL ? adapter : "");
    client_once(&server, "POST", "/v1/completions", "Content-Type: application/json\r\n", body, &answer);
    assert_int_equal(answer.code, 200);
    reply = json_loads(answer.body, 0, NULL);
    (void)snprintf(out, bytes, "%s",
                   json_string_value(json_object_get(json_array_get(json_object_get(reply, "choices"), 0), "text")));
    json_decref(reply);
}

/* Texts with different adapters, at once, are those of the server. */
static void test_adapters(void **state)
{
    static char expected[ADAPTERS + 1][512], got[ADAPTERS + 1][512];
    inlay_text_options how = { .struct_size = sizeof how };
    inlay_text_model_info info = { .struct_size = sizeof info };
    inlay_text_request request = INLAY_TEXT_REQUEST_INIT;
    inlay_options *options = environment();
    inlay_text *texts[ADAPTERS + 1], *none;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_text_model *model;
    char path[256], item[512];

    (void)state;
    assert_int_equal(inlay_options_set(options, "reproducible", "1", &diag), INLAY_OK);
    for (int i = 0; i < ADAPTERS; i++) {
        (void)snprintf(item, sizeof item, "%s=%s/models/counted/adapters/%s", adapter_names[i], server.folder,
                       adapter_names[i]);
        assert_int_equal(inlay_options_set(options, "adapter", item, &diag), INLAY_OK);
    }
    how.options = options;
    how.draft = serving_path(&server, "models/counted/1/model.onnx", path, sizeof path);
    if (inlay_text_model_create(path, &how, &model, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(options);
    assert_int_equal(inlay_text_model_describe(model, &info), INLAY_OK);
    assert_int_equal(info.adapter_count, ADAPTERS);
    request.prompt = "abc";
    request.temperature = 0;
    request.max_tokens = 40;
    for (int i = 0; i <= ADAPTERS; i++) {
        request.adapter = i < ADAPTERS ? adapter_names[i] : NULL;
        complete_by_server(request.adapter, expected[i], sizeof expected[i]);
        texts[i] = begin(model, &request);
    }
    while (inlay_text_model_step(model) > 0)
        continue;
    for (int i = 0; i <= ADAPTERS; i++) {
        take(texts[i], got[i], sizeof got[i]);
        assert_string_equal(got[i], expected[i]);
        inlay_text_destroy(texts[i]);
    }
    assert_string_not_equal(got[0], got[1]);
    assert_string_not_equal(got[0], got[2]);
    request.adapter = "third";
    assert_int_equal(inlay_text_create(model, &request, &none, &diag), INLAY_NOT_FOUND);
    assert_non_null(strstr(diag.text, "third"));
    inlay_text_model_destroy(model);
}

/* Embeddings are those of the server. */
static void test_embed(void **state)
{
    inlay_text_model *model = open_model("vectors", NULL, 0), *decoder = open_model("count", NULL, 0);
    inlay_text_model_info info = { .struct_size = sizeof info };
    inlay_text_request request = INLAY_TEXT_REQUEST_INIT;
    inlay_diag diag = INLAY_DIAG_INIT;
    const float *vector;
    inlay_text *text;
    size_t size;

    (void)state;
    assert_int_equal(inlay_text_model_describe(model, &info), INLAY_OK);
    assert_int_equal(info.embeds, 1);
    for (int i = 0; i < 2; i++) {
        static const char *const texts[] = { "!!!!###", "abca" };
        static struct answer answer;
        char body[128];
        json_t *reply, *expected;

        (void)snprintf(body, sizeof body, "{\"model\":\"vectors\",\"input\":\"%s\"}", texts[i]);
        client_once(&server, "POST", "/v1/embeddings", "Content-Type: application/json\r\n", body, &answer);
        reply = json_loads(answer.body, 0, NULL);
        expected = json_object_get(json_array_get(json_object_get(reply, "data"), 0), "embedding");
        if (inlay_text_model_embed(model, texts[i], strlen(texts[i]), &vector, &size, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        assert_int_equal(size, 128);
        assert_int_equal(json_array_size(expected), size);
        for (size_t k = 0; k < size; k++)
            assert_true((float)json_number_value(json_array_get(expected, k)) == vector[k]);
        json_decref(reply);
    }
    assert_int_equal(inlay_text_model_embed(model, "", 0, &vector, &size, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_text_model_embed(decoder, "a", 1, &vector, &size, &diag), INLAY_UNSUPPORTED);
    request.prompt = "a";
    assert_int_equal(inlay_text_create(model, &request, &text, &diag), INLAY_UNSUPPORTED);
    inlay_text_model_destroy(model);
    inlay_text_model_destroy(decoder);
}

struct calls {
    uint32_t warnings;           /* that name the option against quantized activations */
    uint32_t reports, cancel_at; /* of progress; the report that cancels, 0: none */
    uint64_t blocks, total;      /* of the allocator: in use, and so far */
};

static void note_warning(void *user, uint32_t level, const char *text)
{
    struct calls *calls = user;

    calls->warnings += level == 1 && strstr(text, "dynamic_activations") != NULL;
}

static int report(void *user, double fraction, const char *what)
{
    struct calls *calls = user;

    assert_true(fraction >= 0 && fraction <= 1 && what != NULL);
    return ++calls->reports == calls->cancel_at;
}

static void *allocate(void *user, uint64_t bytes, uint64_t alignment)
{
    struct calls *calls = user;

    (void)__atomic_add_fetch(&calls->blocks, 1, __ATOMIC_RELAXED);
    (void)__atomic_add_fetch(&calls->total, 1, __ATOMIC_RELAXED);
    return aligned_alloc((size_t)alignment, (size_t)((bytes + alignment - 1) / alignment * alignment));
}

static void release(void *user, void *memory, uint64_t bytes)
{
    struct calls *calls = user;

    (void)bytes;
    (void)__atomic_sub_fetch(&calls->blocks, 1, __ATOMIC_RELAXED);
    free(memory);
}

/* Log, progress and allocator of the options are those of the model's sessions, and of its draft model's. */
static void test_functions(void **state)
{
    inlay_allocator allocator = { sizeof allocator, NULL, allocate, release };
    inlay_text_options how = { .struct_size = sizeof how };
    inlay_text_request request = INLAY_TEXT_REQUEST_INIT;
    char path[256], text[16], line[1024], said[1024] = "";
    inlay_options *options = environment();
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_text_model *model;
    uint32_t cancelled = 0;
    FILE *command;

    (void)state;
    (void)serving_path(&server, "models/rounding/1/model.onnx", path, sizeof path);
    assert_int_equal(inlay_options_set(options, "state", "past_key=new", &diag), INLAY_OK);
    how.options = options;
    request.prompt = "ab";
    request.temperature = 0;
    request.max_tokens = 3;
    for (int drafts = 0; drafts < 2; drafts++) {
        struct calls calls = { 0 };

        inlay_options_set_log(options, note_warning, &calls);
        inlay_options_set_progress(options, report, &calls);
        allocator.user = &calls;
        assert_int_equal(inlay_options_set_allocator(options, &allocator, &diag), INLAY_OK);
        how.draft = drafts != 0 ? path : NULL;
        if (inlay_text_model_create(path, &how, &model, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        assert_int_equal(calls.warnings, 1 + drafts);
        assert_true(calls.reports > 1);
        assert_int_equal(generate(model, &request, text, sizeof text), INLAY_TEXT_LENGTH);
        assert_string_equal(text, "bbb");
        assert_true(calls.total > 0);
        inlay_text_model_destroy(model);
        assert_int_equal(calls.blocks, 0);
        for (uint32_t at = calls.reports; at > 0; at--) {
            calls.reports = 0;
            calls.cancel_at = at;
            assert_int_equal(inlay_text_model_create(path, &how, &model, &diag), INLAY_CANCELLED);
            assert_null(model);
            assert_int_equal(calls.blocks, 0);
            cancelled++;
        }
    }
    assert_true(cancelled > 2);
    inlay_options_destroy(options);

    (void)snprintf(line, sizeof line,
                   "echo ab | " INLAY_CLI " chat %s --state past_key=new --tokens 3 --temperature 0 2>&1 >/dev/null",
                   path);
    command = popen(line, "r");
    assert_non_null(command);
    (void)fread(said, 1, sizeof said - 1, command);
    assert_int_equal(pclose(command), 0);
    assert_non_null(strstr(said, "warning: this decoder quantizes activations"));
}

static int finish(void **state)
{
    (void)state;
    return serving_close(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_context),        cmocka_unit_test(test_ends),
                                        cmocka_unit_test(test_same_as_server), cmocka_unit_test(test_tokens),
                                        cmocka_unit_test(test_chats),          cmocka_unit_test(test_forms),
                                        cmocka_unit_test(test_stop),           cmocka_unit_test(test_refused),
                                        cmocka_unit_test(test_adapters),       cmocka_unit_test(test_embed),
                                        cmocka_unit_test(test_functions) };

    return cmocka_run_group_tests(tests, prepare, finish);
}
