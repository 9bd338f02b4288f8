/* The parameters of OpenAI's requests for texts, chats, responses and embeddings: their effects, and their refusal. */
#include "client.h"
#include <string.h>
#include "cmocka_all.h"

#define REFUSED(name) "\"type\":\"invalid_request_error\",\"param\":\"" name "\",\"code\":"

static struct serving server;

static int start(void **state)
{
    static const char *const flags[] = {
        "--max-sequences", "4", "--admin-token-file", "FOLDER/admins", "--context", "1000", NULL
    };

    *state = &server;
    serving_prepare(&server);
    serving_tokens(&server);
    serving_model(&server, "count", "options: [state=old=new]\n", write_counting);
    serving_tokenizer(&server, "count", NULL);
    serving_file(&server, "models/count/config.json",
                 "{\"eos_token_id\": [201, 202, 203, 204, 205, 206, 207, 208, 209, 122]}", 0644);
    /* A chat template that writes the first letter of each role, and the message. */
    serving_file(
        &server, "models/count/tokenizer_config.json",
        "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"z\",\"chat_template\":[{\"name\":\"default\","
        "\"template\":"
        "\"{% for m in messages %}{% if m.role == 'odd' %}{{ raise_exception('odd') }}{% endif %}{{ m.role[0:1] "
        "+ m.content }}{% endfor %}\"}]}",
        0644);
    serving_model(&server, "vectors", NULL, write_vectors);
    serving_tokenizer(&server, "vectors", NULL);
    serving_start(&server, flags);
    return 0;
}

#define CHAT(more) "{\"model\":\"count\",\"temperature\":0,\"messages\":[" more "}"

static void test_chats(void **state)
{
    static const struct {
        const char *body, *part;
        int code;
    } rows[] = {
        { CHAT("{\"role\":\"user\",\"content\":\"xy\"}],\"max_tokens\":5"), "\"object\":\"chat.completion\"", 200 },
        { CHAT("{\"role\":\"user\",\"content\":\"xy\"}],\"max_tokens\":5"),
          "\"message\":{\"role\":\"assistant\",\"refusal\":null,\"content\":\"CDEFG\"},\"logprobs\":null,\"finish_"
          "reason\":\"length\"",
          200 },
        { CHAT("{\"content\":\"x\",\"role\":\"system\",\"name\":1},{\"role\":\"user\",\"content\":[{\"type\":\"text\","
               "\"text\":"
               "\"\\u0078\"},{\"type\":\"text\",\"text\":\"y\"}]}],\"max_completion_tokens\":2"),
          "\"content\":\"EF\"}", 200 },
        { CHAT("{\"role\":\"user\",\"content\":\"xy\"}]"), "uvwxy\"},\"logprobs\":null,\"finish_reason\":\"stop\"",
          200 },
        { CHAT("{\"role\":\"odd\",\"content\":null}]"), "refuses the messages: odd", 400 },
        { CHAT("]"), "no messages", 400 },
        { CHAT("{\"role\":\"user\"}]"), "without role or content", 400 },
        { CHAT("{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{}}]}]"), "of type image_url",
          400 },
        { CHAT("{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{}]"), "not supported", 400 },
        { "{\"model\":\"vectors\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", "not a model for texts",
          400 },
        { "{\"model\":\"count\"}", "no messages", 400 },
    };

    static char events[65536];

    (void)state;
    client_stream(&server, "/v1/chat/completions",
                  CHAT("{\"role\":\"user\",\"content\":\"xy\"}],\"max_tokens\":2,\"stream\":true"), NULL, events,
                  sizeof events);
    assert_non_null(strstr(events, "\"object\":\"chat.completion.chunk\""));
    assert_non_null(strstr(
        events, "\"delta\":{\"role\":\"assistant\",\"content\":\"C\"},\"logprobs\":null,\"finish_reason\":null"));
    assert_non_null(strstr(events, "\"delta\":{\"content\":\"D\"},\"logprobs\":null,\"finish_reason\":\"length\""));
    assert_non_null(strstr(events, "data: [DONE]"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        client_expect(&server, "POST", "/v1/chat/completions", "", rows[i].body, rows[i].code, rows[i].part);
}

/* Requests as OpenAI's clients write them: every parameter has its effect, or is refused by name. */
static void test_parameters(void **state)
{
#define TEXT(more) "{\"model\":\"count\",\"prompt\":\"xyz\",\"max_tokens\":3,\"temperature\":0" more "}"
#define SAY(more)                                                                                                      \
    "{\"model\":\"count\",\"max_tokens\":2,\"temperature\":0,\"messages\":[{\"role\":\"user\",\"content\":\"xy\"}"     \
    "]" more "}"
    static const struct {
        const char *path, *body, *part;
        int code;
    } rows[] = {
        /* prompts: texts, tokens, and arrays of either; the model counts from the number of tokens */
        { "completions", "{\"model\":\"count\",\"prompt\":[\"x\",\"xyz\"],\"max_tokens\":2,\"temperature\":0}",
          "{\"index\":0,\"text\":\"AB\",\"logprobs\":null,\"finish_reason\":\"length\"},{\"index\":1,\"text\":\"CD\"",
          200 },
        /* those of vLLM and llama-server */
        { "completions", TEXT(",\"echo\":true"), "\"text\":\"xyzCDE\"", 200 },
        { "completions", TEXT(",\"stop_token_ids\":[69]"),
          "\"text\":\"CD\",\"logprobs\":null,\"finish_reason\":\"stop\"", 200 },
        { "completions", TEXT(",\"stop_token_ids\":[68],\"min_tokens\":3"), "\"finish_reason\":\"length\"", 200 },
        { "completions", TEXT(",\"guided_choice\":[\"no\",\"yes\"]"), "\"finish_reason\":\"stop\"", 200 },
        { "completions", TEXT(",\"guided_json\":{\"const\":7}"), "\"text\":\"7\"", 200 },
        { "completions", TEXT(",\"json_schema\":{\"enum\":[8]}"), "\"text\":\"8\"", 200 },
        { "completions", TEXT(",\"guided_json\":\"{\\\"const\\\":7}\""), "\"text\":\"7\"", 200 },
        { "completions", TEXT(",\"structured_outputs\":{\"regex\":\"ab\"}"), "\"text\":\"ab\"", 200 },
        { "completions", TEXT(",\"structured_outputs\":{\"bnf\":\"ab\"}"), "'bnf' is not supported", 400 },
        { "completions", TEXT(",\"structured_outputs\":{\"json\":{\"const\":7}},\"guided_regex\":\"a\""),
          "only one form", 400 },
        { "completions",
          "{\"model\":\"count\",\"prompt\":\"x\",\"max_tokens\":70,\"temperature\":0,\"ignore_eos\":true}",
          "\"finish_reason\":\"length\"", 200 },
        { "chat/completions", SAY(",\"cache_prompt\":true,\"verbosity\":\"low\""), "\"finish_reason\":\"length\"",
          200 },
        { "chat/completions",
          "{\"model\":\"count\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\","
          "\"image_url\":{\"url\":\"data:\"}}]}]}",
          "message 0: part 0 of the content: the data URI of an image must be in base64", 400 },
        { "completions", "{\"model\":\"count\",\"prompt\":[120,121],\"max_tokens\":2,\"temperature\":0}",
          "\"text\":\"BC\"", 200 },
        { "completions", "{\"model\":\"count\",\"prompt\":[[120],[120,121]],\"max_tokens\":1,\"temperature\":0}",
          "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5,\"prompt_tokens_details\":{"
          "\"cached_tokens\":0}}",
          200 },
        { "completions", "{\"model\":\"count\",\"prompt\":[\"x\",\"\"]}", "no tokens", 400 },
        { "completions", "{\"model\":\"count\",\"prompt\":[\"x\",7]}", REFUSED("prompt"), 400 },
        { "completions", "{\"model\":\"count\",\"prompt\":[]}", "no prompt", 400 },
        /* several texts */
        { "completions", TEXT(",\"n\":2"), "{\"index\":1,\"text\":\"CDE\"", 200 },
        { "completions", TEXT(",\"n\":2,\"best_of\":3"), "\"completion_tokens\":9,", 200 },
        { "completions", TEXT(",\"n\":3,\"best_of\":2"), REFUSED("best_of"), 400 },
        { "completions", TEXT(",\"best_of\":2,\"stream\":true"), REFUSED("best_of"), 400 },
        { "completions", "{\"model\":\"count\",\"prompt\":[\"x\",\"y\"],\"n\":100}", "more than 128 texts", 400 },
        { "chat/completions", SAY(",\"n\":2"),
          "{\"index\":1,\"message\":{\"role\":\"assistant\",\"refusal\":null,\"content\":\"CD\"}", 200 },
        { "chat/completions", SAY(",\"best_of\":2"), REFUSED("best_of"), 400 },
        /* the choice of tokens: the model is sure of its next one, whose logit is 1 */
        { "completions", TEXT(",\"logit_bias\":{\"113\":50}"), "\"text\":\"qqq\"", 200 },
        { "completions", TEXT(",\"logit_bias\":{\"67\":-100,\"113\":0.5}"), "\"text\":\"qDE\"", 200 },
        { "completions", TEXT(",\"logit_bias\":{\"113\":1.5},\"frequency_penalty\":0.4"), "\"text\":\"qqE\"", 200 },
        { "completions", TEXT(",\"logit_bias\":{\"113\":1.5},\"presence_penalty\":0.6"), "\"text\":\"qDE\"", 200 },
        { "completions", TEXT(",\"logit_bias\":{\"113\":1.5},\"presence_penalty\":0.4"), "\"text\":\"qqq\"", 200 },
        { "completions", TEXT(",\"logit_bias\":{\"q\":1}"), "'q' is not a token id", 400 },
        { "completions", TEXT(",\"logit_bias\":{\"113\":1.5},\"no_repeat_ngram_size\":2"), "\"text\":\"qqE\"", 200 },
        { "completions", TEXT(",\"logit_bias\":{\"113\":1.5},\"no_repeat_ngram_size\":1"), "\"text\":\"qDE\"", 200 },
        { "completions", TEXT(",\"logit_bias\":{\"113\":0.5},\"bad_words\":[\"CD\",\"E\"]"), "\"text\":\"Cqq\"", 200 },
        { "completions", TEXT(",\"logit_bias\":{\"113\":0.5},\"bad_words\":[\"DC\",\"DEC\"]"), "\"text\":\"CDE\"",
          200 },
        { "completions", TEXT(",\"bad_words\":[\"\"]"), REFUSED("bad_words"), 400 },
        { "completions", TEXT(",\"bad_words\":\"x\""), REFUSED("bad_words"), 400 },
        { "completions", TEXT(",\"no_repeat_ngram_size\":-1"), REFUSED("no_repeat_ngram_size"), 400 },
        { "completions",
          "{\"model\":\"count\",\"prompt\":\"xyz\",\"max_tokens\":3,\"temperature\":1,\"epsilon_cutoff\":0.01}",
          "\"text\":\"CDE\"", 200 },
        { "completions", "{\"model\":\"count\",\"prompt\":\"xyz\",\"max_tokens\":3,\"temperature\":1,\"eta_cutoff\":1}",
          "\"text\":\"CDE\"", 200 },
        /* a form whose tokens are all excluded: the text ends if it is complete, and fails otherwise */
        { "completions", TEXT(",\"guided_regex\":\"q\",\"logit_bias\":{\"113\":-100}"),
          "no token may follow the 0 generated ones: the request and the model's generation_config.json exclude all "
          "tokens that continue the text's schema, grammar or call of a tool",
          400 },
        { "completions", TEXT(",\"guided_regex\":\"Dq\",\"bad_words\":[\"q\"]"),
          "no token may follow the 1 generated ones", 400 },
        { "completions", TEXT(",\"guided_regex\":\"Dq?\",\"logit_bias\":{\"113\":-100},\"min_tokens\":3"),
          "\"text\":\"D\",\"logprobs\":null,\"finish_reason\":\"stop\"", 200 },
        { "completions", TEXT(",\"guided_regex\":\"qD\",\"min_tokens\":3"),
          "\"text\":\"qD\",\"logprobs\":null,\"finish_reason\":\"stop\"", 200 },
        { "completions", TEXT(",\"guided_regex\":\"qD\",\"stop_token_ids\":[113]"),
          "\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"stop\"", 200 },
        { "completions", TEXT(",\"guided_regex\":\"qD\",\"stop_token_ids\":[113],\"min_tokens\":1"),
          "no token may follow the 0 generated ones", 400 },
        { "completions", TEXT(",\"guided_regex\":\"q\u00e9\""),
          "no token of the model's vocabulary may follow the 1 generated ones", 400 },
        { "completions", TEXT(",\"logit_bias\":{\"67\":101}"), "too large", 400 },
        { "completions", TEXT(",\"frequency_penalty\":3"), REFUSED("frequency_penalty"), 400 },
        { "completions", TEXT(",\"presence_penalty\":-3"), REFUSED("presence_penalty"), 400 },
        { "completions", TEXT(",\"temperature\":2"), "duplicate", 400 },
        { "completions", "{\"model\":\"count\",\"prompt\":\"xyz\",\"max_tokens\":3,\"temperature\":2,\"top_k\":1}",
          "\"text\":\"CDE\"", 200 },
        { "completions", "{\"model\":\"count\",\"prompt\":\"xyz\",\"max_tokens\":3,\"temperature\":1,\"min_p\":0.9}",
          "\"text\":\"CDE\"", 200 },
        { "completions", TEXT(",\"min_p\":2"), REFUSED("min_p"), 400 },
        { "completions", "{\"model\":\"count\",\"prompt\":\"xyz\",\"max_tokens\":3,\"temperature\":2,\"top_p\":0.01}",
          "\"text\":\"CDE\"", 200 },
        { "completions", TEXT(",\"top_p\":1.5"), REFUSED("top_p"), 400 },
        { "completions", TEXT(",\"top_k\":-2"), REFUSED("top_k"), 400 },
        { "completions",
          "{\"model\":\"count\",\"prompt\":\"xyC\",\"max_tokens\":1,\"temperature\":0,\"logit_bias\":{\"113\":0.75},"
          "\"repetition_penalty\":2}",
          "\"text\":\"q\"", 200 },
        { "completions",
          "{\"model\":\"count\",\"prompt\":\"xyC\",\"max_tokens\":1,\"temperature\":0,\"logit_bias\":{\"113\":0.75},"
          "\"repetition_penalty\":1}",
          "\"text\":\"C\"", 200 },
        { "completions", TEXT(",\"repetition_penalty\":0"), REFUSED("repetition_penalty"), 400 },
        { "completions", TEXT(",\"stop\":[\"E\",\"D\"]"), "\"text\":\"C\",\"logprobs\":null,\"finish_reason\":\"stop\"",
          200 },
        { "chat/completions",
          "{\"model\":\"count\",\"temperature\":0,\"max_completion_tokens\":1,\"messages\":[{\"role\":\"user\","
          "\"content\":\"xy\"}]}",
          "\"content\":\"C\"", 200 },
        { "completions", TEXT(",\"seed\":0"), "\"text\":\"CDE\"", 200 },
        { "completions", TEXT(",\"seed\":1.5"), REFUSED("seed"), 400 },
        /* ln(e / (e + 127)) = -3.865, and 1 less for each other token */
        { "completions", TEXT(",\"logprobs\":1"),
          "\"logprobs\":{\"tokens\":[\"C\",\"D\",\"E\"],\"token_logprobs\":[-3.86536506,-3.86536506,-3.86536506],"
          "\"top_logprobs\":[{\"C\":-3.86536506},{\"D\":-3.86536506},{\"E\":-3.86536506}],\"text_offset\":[0,1,2]}",
          200 },
        /* of the most probable tokens without text, one */
        { "completions", TEXT(",\"logprobs\":4"),
          "\"top_logprobs\":[{\"C\":-3.86536506,\"\":-4.86536506},{\"D\":", 200 },
        { "completions", TEXT(",\"logprobs\":0"), "\"top_logprobs\":null,", 200 },
        { "completions", TEXT(",\"logprobs\":21"), REFUSED("logprobs"), 400 },
        { "chat/completions", SAY(",\"logprobs\":true,\"top_logprobs\":1"),
          "\"logprobs\":{\"content\":[{\"token\":\"C\",\"logprob\":-3.86536506,\"bytes\":[67],\"top_logprobs\":[{"
          "\"token\":"
          "\"C\",\"logprob\":-3.86536506,\"bytes\":[67]}]},{\"token\":\"D\",",
          200 },
        { "chat/completions", SAY(",\"top_logprobs\":1"), REFUSED("top_logprobs"), 400 },
        /* parameters with one supported value, labels, and all others */
        { "chat/completions",
          SAY(",\"response_format\":{\"type\":\"text\"},\"tools\":[],\"tool_choice\":\"none\",\"modalities\":[\"text\"]"
              ","
              "\"user\":\"u\",\"metadata\":{\"a\":\"b\"},\"store\":false,\"service_tier\":\"auto\",\"stop\":null,"
              "\"audio\":null"),
          "\"content\":\"CD\"", 200 },
        { "chat/completions", SAY(",\"response_format\":{\"type\":\"xml\"}"), REFUSED("response_format"), 400 },
        /* the form of the text: the model's tokens are single characters, and it wants the next letter */
        { "completions", TEXT(",\"guided_regex\":\"[q-s]+\""),
          "\"text\":\"qqq\",\"logprobs\":null,\"finish_reason\":\"length\"", 200 },
        { "completions", TEXT(",\"guided_regex\":\"q.s\""), "\"text\":\"qDs\"", 200 },
        { "completions", TEXT(",\"guided_regex\":\"qD\",\"n\":2"),
          "{\"index\":1,\"text\":\"qD\",\"logprobs\":null,\"finish_reason\":\"stop\"", 200 },
        { "completions", TEXT(",\"grammar\":\"root ::= \\\"C\\\" [a-b]\""),
          "\"text\":\"Ca\",\"logprobs\":null,\"finish_reason\":\"stop\"", 200 },
        { "completions", TEXT(",\"grammar\":\"root ::= x\""), "grammar: the grammar has no rule 'x'", 400 },
        { "completions", TEXT(",\"guided_regex\":\"(\""), REFUSED("guided_regex"), 400 },
        { "completions", TEXT(",\"guided_regex\":\"a\",\"grammar\":\"root ::= \\\"a\\\"\""), "only one form", 400 },
        { "chat/completions",
          "{\"model\":\"count\",\"temperature\":0,\"messages\":[{\"role\":\"user\",\"content\":\"xy\"}],\"response_"
          "format\":{"
          "\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"strict\":true,\"schema\":{\"type\":\"object\","
          "\"properties\":{\"a\":{\"enum\":[\"F\",\"G\"]}},\"required\":[\"a\"],\"additionalProperties\":false}}}}",
          "\"content\":\"{\\\"a\\\":\\\"F\\\"}\"},\"logprobs\":null,\"finish_reason\":\"stop\"", 200 },
        { "chat/completions", SAY(",\"response_format\":{\"type\":\"json_object\"}"), "\"content\":\"{\\\"\"", 200 },
        { "chat/completions",
          SAY(",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"multipleOf\":12345}}}"),
          "'multipleOf': ", 400 },
        { "chat/completions", SAY(",\"modalities\":[\"audio\"]"), REFUSED("modalities"), 400 },
        /* a schema next to the type, as clients of llama-server write it, and unknown members */
        { "chat/completions", SAY(",\"response_format\":{\"type\":\"json_object\",\"schema\":{\"const\":7}}"),
          "\"content\":\"7\"", 200 },
        { "chat/completions", SAY(",\"response_format\":{\"type\":\"json_schema\",\"schema\":{\"const\":7}}"),
          "\"content\":\"7\"", 200 },
        { "chat/completions", SAY(",\"response_format\":{\"type\":\"text\",\"schema\":{\"const\":7}}"),
          "response_format: the schema would have no effect", 400 },
        { "chat/completions",
          SAY(",\"response_format\":{\"type\":\"json_object\",\"json_schema\":{\"schema\":{\"const\":7}}}"),
          "response_format: the schema would have no effect", 400 },
        { "chat/completions",
          SAY(",\"response_format\":{\"type\":\"json_schema\",\"schema\":{\"const\":7},\"json_schema\":{\"schema\":{}}"
              "}"),
          "response_format: the schema would have no effect", 400 },
        { "chat/completions", SAY(",\"response_format\":{\"type\":\"text\",\"pattern\":\"a\"}"),
          "response_format: 'pattern' is not supported", 400 },
        { "chat/completions",
          SAY(",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"const\":7},\"order\":1}"
              "}"),
          "response_format: 'order' is not supported", 400 },
        { "completions", TEXT(",\"stream\":true,\"stream_options\":{\"continuous_usage_stats\":true}"),
          "stream_options: continuous_usage_stats: only false is supported", 400 },
        { "completions", TEXT(",\"stream\":true,\"stream_options\":{\"usage\":true}"),
          "stream_options: 'usage' is not supported", 400 },
        { "responses", "{\"model\":\"count\",\"input\":\"xy\",\"text\":{\"form\":1}}", "text: 'form' is not supported",
          400 },
        /* what clients of vLLM and llama-server send with its default value */
        { "completions",
          TEXT(",\"skip_special_tokens\":true,\"spaces_between_special_tokens\":true,\"request_id\":\"r\","
               "\"include_stop_str_in_output\":false,\"use_beam_search\":false,\"repeat_penalty\":1,"
               "\"return_tokens_as_token_ids\":false,\"return_token_ids\":false"),
          "\"text\":\"CDE\"", 200 },
        { "chat/completions", SAY(",\"add_generation_prompt\":true,\"continue_final_message\":false,\"echo\":false"),
          "\"content\":\"CD\"", 200 },
        { "completions", TEXT(",\"skip_special_tokens\":false"), REFUSED("skip_special_tokens"), 400 },
        { "completions", TEXT(",\"use_beam_search\":true"), REFUSED("use_beam_search"), 400 },
        { "completions",
          TEXT(",\"length_penalty\":1.0,\"priority\":0,\"bad_words\":[],\"mirostat\":0,\"typical_p\":1,\"id_slot\":-1,"
               "\"dynatemp_range\":0.0,\"dry_multiplier\":0,\"xtc_probability\":0,\"n_probs\":0,\"min_keep\":0,"
               "\"timings_per_token\":false,\"return_progress\":false"),
          "\"text\":\"CDE\"", 200 },
        { "completions", TEXT(",\"mirostat\":2"), "mirostat: only 0 is supported", 400 },
        { "completions",
          TEXT(",\"typical_p\":0.5,\"top_n_sigma\":1,\"xtc_probability\":0.5,\"xtc_threshold\":0.2,"
               "\"repeat_last_n\":64"),
          "\"text\":\"CDE\"", 200 },
        { "completions", TEXT(",\"typical_p\":1.5"), REFUSED("typical_p"), 400 },
        { "completions", TEXT(",\"top_n_sigma\":\"a\""), REFUSED("top_n_sigma"), 400 },
        { "completions", TEXT(",\"xtc_probability\":-1"), REFUSED("xtc_probability"), 400 },
        { "completions", TEXT(",\"repeat_last_n\":-2"), REFUSED("repeat_last_n"), 400 },
        { "completions", "{\"model\":\"count\",\"prompt\":\"u\",\"temperature\":0,\"max_tokens\":-1}",
          "\"finish_reason\":\"stop\"", 200 },
        { "completions", "{\"model\":\"count\",\"prompt\":\"u\",\"max_tokens\":-2}", REFUSED("max_tokens"), 400 },
        { "chat/completions", SAY(",\"continue_final_message\":7"), REFUSED("continue_final_message"), 400 },
        { "chat/completions", SAY(",\"store\":true"), REFUSED("store"), 400 },
        { "chat/completions", SAY(",\"service_tier\":\"flex\""), REFUSED("service_tier"), 400 },
        { "chat/completions", SAY(",\"tool_choice\":\"required\""), REFUSED("tool_choice"), 400 },
        { "chat/completions", SAY(",\"functions\":[{}]"), REFUSED("functions"), 400 },
        { "chat/completions", SAY(",\"reasoning_effort\":\"low\""),
          REFUSED("reasoning_effort") "\"unsupported_parameter\"", 400 },
        { "completions", TEXT(",\"suffix\":\"z\""), "suffix: the model's tokenizer has no tokens for a text between",
          400 },
        { "completions", TEXT(",\"suffix\":\"\""), "\"text\":", 200 },
        { "completions", TEXT(",\"suffix\":7"), "suffix: not a text", 400 },
        { "completions", TEXT(",\"stream\":1"), REFUSED("stream"), 400 },
        { "completions", TEXT(",\"stop\":7"), REFUSED("stop"), 400 },
        { "completions", "[]", "not an object", 400 },
        { "completions", "{\"model\":\"count:none\",\"prompt\":\"x\"}",
          "\"param\":\"model\",\"code\":\"model_not_found\"", 404 },
        /* embeddings: the vector of "!" is 1 at dimension 33; base64 is of little-endian floats */
        { "embeddings", "{\"model\":\"vectors\",\"input\":[[33,33],[33]],\"user\":\"u\"}", "\"prompt_tokens\":3,",
          200 },
        { "embeddings", "{\"model\":\"vectors\",\"input\":[33],\"dimensions\":34}", "0,0,0,1]}", 200 },
        { "embeddings", "{\"model\":\"vectors\",\"input\":[33],\"dimensions\":34,\"encoding_format\":\"base64\"}",
          "AAAAAACAPw==\"", 200 },
        { "embeddings", "{\"model\":\"vectors\",\"input\":\"a\",\"dimensions\":129}", "the model's embeddings have 128",
          400 },
        { "embeddings", "{\"model\":\"vectors\",\"input\":\"a\",\"dimensions\":0}", REFUSED("dimensions"), 400 },
        { "embeddings", "{\"model\":\"vectors\",\"input\":[999]}", "no token 999", 400 },
        { "embeddings", "{\"model\":\"vectors\",\"input\":\"a\",\"truncate\":true}", REFUSED("truncate"), 400 },
    };
    static char events[65536];
    char path[64];
    struct answer answer;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)snprintf(path, sizeof path, "/v1/%s", rows[i].path);
        client_expect(&server, "POST", path, "", rows[i].body, rows[i].code, rows[i].part);
    }
    client_stream(&server, "/v1/completions",
                  TEXT(",\"n\":2,\"stream\":true,\"stream_options\":{\"include_usage\":true}"), NULL, events,
                  sizeof events);
    assert_non_null(
        strstr(events, "{\"index\":1,\"text\":\"C\",\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}"));
    assert_non_null(strstr(events, "\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":6,\"total_"
                                   "tokens\":9,\"prompt_tokens_details\":{\"cached_tokens\":0}}}\n\ndata: [DONE]"));
    client_once(&server, "GET", "/v1/models/count", "", NULL, &answer);
    assert_int_equal(answer.code, 200);
    assert_non_null(strstr(answer.body, "{\"id\":\"count\",\"object\":\"model\""));
    client_once(&server, "GET", "/v1/models/none", "", NULL, &answer);
    assert_int_equal(answer.code, 404);
    assert_non_null(strstr(answer.body, "\"code\":\"model_not_found\""));
}

/* What llama-server and vLLM say of messages, and of the only model for texts. */
static void test_templates(void **state)
{
    static const char *const dialog =
        "\"messages\":[{\"role\":\"user\",\"content\":\"xy\"},{\"role\":\"assistant\",\"content\":\"z\"}]";
    char body[512];

    (void)state;
    (void)snprintf(body, sizeof body, "{\"model\":\"count\",%s}", dialog);
    client_expect(&server, "POST", "/apply-template", "", body, 200, "{\"prompt\":\"uxyz\"}");
    client_expect(&server, "POST", "/tokenize", "", body, 200,
                  "{\"count\":4,\"max_model_len\":1000,\"tokens\":[117,120,121,122]}");
    (void)snprintf(body, sizeof body, "{\"model\":\"count\",\"add_generation_prompt\":false,%s}", dialog);
    client_expect(&server, "POST", "/apply-template", "", body, 400, "only true is supported");
    (void)snprintf(body, sizeof body, "{\"model\":\"count\",\"prompt\":\"x\",%s}", dialog);
    client_expect(&server, "POST", "/tokenize", "", body, 400, "both a prompt and messages");
    (void)snprintf(body, sizeof body, "{\"model\":\"vectors\",%s}", dialog);
    client_expect(&server, "POST", "/apply-template", "", body, 400, "no chat_template");
    client_expect(&server, "POST", "/apply-template", "", "{\"model\":\"count\"}", 400, "no messages");
    client_expect(&server, "POST", "/apply-template", "",
                  "{\"model\":\"count\",\"messages\":[{\"role\":\"odd\",\"content\":\"\"}]}", 400, "odd");
    /* The last message is continued, unless the request says otherwise. */
    (void)snprintf(body, sizeof body, "{\"model\":\"count\",\"temperature\":0,\"max_tokens\":2,%s}", dialog);
    client_expect(&server, "POST", "/v1/chat/completions", "", body, 200, "\"content\":\"DE\"");
    client_expect(&server, "POST", "/v1/messages", "", body, 200, "\"text\":\"DE\"");
    (void)snprintf(body, sizeof body,
                   "{\"model\":\"count\",\"temperature\":0,\"max_tokens\":2,\"continue_final_message\":false,%s}",
                   dialog);
    client_expect(&server, "POST", "/v1/chat/completions", "", body, 200, "\"content\":\"EF\"");
    /* Ollama's prompts are messages, unless they are raw. */
    client_expect(
        &server, "POST", "/api/generate", "",
        "{\"model\":\"count\",\"prompt\":\"xy\",\"stream\":false,\"options\":{\"temperature\":0,\"num_predict\":2}}",
        200, "\"response\":\"CD\",\"done\":true,\"done_reason\":\"length\",");
    client_expect(&server, "POST", "/api/generate", "",
                  "{\"model\":\"count\",\"prompt\":\"xy\",\"raw\":true,\"stream\":false,\"options\":{\"temperature\":0,"
                  "\"num_predict\":2}}",
                  200, "\"response\":\"BC\"");
    /* The template knows no tools. */
    client_expect(
        &server, "POST", "/apply-template", "",
        "{\"model\":\"count\",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"messages\":[{"
        "\"role\":\"user\",\"content\":\"xy\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{"
        "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}}]},{\"role\":\"tool\",\"content\":"
        "\"7\"},{\"role\":\"tool\",\"content\":\"8\"}]}",
        200,
        "{\"prompt\":\"uYou may call these functions:\\u000a{\\\"name\\\": \\\"f\\\", \\\"parameters\\\": "
        "{\\\"type\\\": \\\"object\\\", \\\"properties\\\": {}}}\\u000aTo call a function, answer with "
        "{\\\"name\\\": NAME, \\\"arguments\\\": {...}} alone.\\u000a\\u000axya{\\\"name\\\": \\\"f\\\", "
        "\\\"arguments\\\": {\\\"a\\\": 1}}uResult of the function: 7\\u000aResult of the function: 8\"}");
    client_expect(&server, "GET", "/slots", "", NULL, 200,
                  "[{\"id\":0,\"model\":\"count\",\"n_ctx\":1000,\"is_processing\":false},{\"id\":1,");
    client_expect(&server, "GET", "/props", "", NULL, 200, "\"total_slots\":4,");
    client_expect(&server, "POST", "/tokenize", "", "{\"prompt\":\"x\"}", 404, "no such model"); /* two have tokens */
    client_expect(&server, "POST", "/v2/repository/models/vectors/unload", AS_ADMIN, "{}", 200, "");
    client_expect(&server, "POST", "/v1/completions", "", "{\"prompt\":\"xyz\",\"temperature\":0,\"max_tokens\":1}",
                  200,
                  "\"model\":\"count\",\"warnings\":[\"the request names no model; the only one that generates texts, "
                  "'count', answers\"],\"choices\":[{\"index\":0,\"text\":\"C\"");
    client_expect(
        &server, "POST", "/completion", "",
        "{\"model\":\"gpt:7b\",\"prompt\":\"xyz\",\"temperature\":0,\"n_predict\":1}", 200,
        "{\"index\":0,\"warnings\":[\"there is no model 'gpt:7b'; the only one that generates texts, 'count', "
        "answers\"],\"content\":\"C\"");
    client_expect(&server, "POST", "/v1/completions", "", "{\"model\":\"count:odd\",\"prompt\":\"xyz\"}", 404,
                  "no such model");
    client_expect(&server, "POST", "/v1/completions", "", "{\"model\":\"twice\",\"prompt\":\"xyz\"}", 400,
                  "not a model for texts");
    client_expect(&server, "POST", "/tokenize", "", "{\"model\":\"gpt\",\"prompt\":\"x\"}", 200, "\"tokens\":[120]");
    client_expect(&server, "GET", "/props", "", NULL, 200, "\"chat_template\":\"{% for m in messages %}");
    client_expect(&server, "GET", "/props", "", NULL, 200, "\"bos_token\":\"<s>\",\"eos_token\":\"z\"");
}

/* Parameters with several names: each name has the effect, and two names with different values are refused. */
static void test_names(void **state)
{
#define NAMED "{\"model\":\"count\",\"temperature\":0,"
    static const char repeat[] = NAMED "\"prompt\":\"xyC\",\"max_tokens\":1,\"logit_bias\":{\"113\":0.75}";
    static const char prompt[] = NAMED "\"prompt\":\"xyz\",\"max_tokens\":3";
    static const char message[] = NAMED "\"messages\":[{\"role\":\"user\",\"content\":\"xy\"}]";
    static const struct {
        const char *path, *body, *name, *value, *effect; /* body: without its last brace */
        const char *other, *other_value;                 /* another name, with another value */
    } rows[] = {
        { "completions", repeat, "repetition_penalty", "2", "\"text\":\"q\"", "repeat_penalty", "1.5" },
        { "completions", repeat, "repeat_penalty", "2", "\"text\":\"q\"", "repetition_penalty", "1" },
        { "chat/completions", message, "max_tokens", "2", "\"content\":\"CD\"", "max_completion_tokens", "3" },
        { "chat/completions", message, "n_predict", "2", "\"content\":\"CD\"", "max_tokens", "3" },
        { "chat/completions", message, "max_completion_tokens", "2", "\"content\":\"CD\"", "max_tokens", "3" },
        { "completions", prompt, "grammar", "\"root ::= \\\"ab\\\"\"", "\"text\":\"ab\"", "guided_grammar", "\"x\"" },
        { "completions", prompt, "guided_grammar", "\"root ::= \\\"ab\\\"\"", "\"text\":\"ab\"", "grammar", "\"x\"" },
        { "completions", prompt, "guided_regex", "\"ab\"", "\"text\":\"ab\"", "grammar", "\"x\"" },
        { "completions", prompt, "guided_choice", "[\"ab\"]", "\"text\":\"ab\"", "guided_regex", "\"x\"" },
        { "completions", prompt, "guided_json", "{\"const\":7}", "\"text\":\"7\"", "json_schema", "{}" },
        { "completions", prompt, "json_schema", "{\"const\":7}", "\"text\":\"7\"", "guided_json", "{}" },
        { "completions", prompt, "structured_outputs", "{\"json\":{\"const\":7}}", "\"text\":\"7\"", "guided_json",
          "{}" },
        { "completions", prompt, "structured_outputs", "{\"regex\":\"ab\"}", "\"text\":\"ab\"", "guided_json", "{}" },
        { "completions", prompt, "structured_outputs", "{\"choice\":[\"ab\"]}", "\"text\":\"ab\"", "guided_json",
          "{}" },
        { "completions", prompt, "structured_outputs", "{\"grammar\":\"root ::= \\\"ab\\\"\"}", "\"text\":\"ab\"",
          "guided_json", "{}" },
        { "completions", prompt, "structured_outputs", "{\"json_object\":true}", "\"text\":\"{\\\"", "guided_json",
          "{}" },
        { "completions", prompt, "response_format", "{\"type\":\"json_object\"}", "\"text\":\"{\\\"", "guided_json",
          "{}" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[64], body[512];

        (void)snprintf(path, sizeof path, "/v1/%s", rows[i].path);
        (void)snprintf(body, sizeof body, "%s,\"%s\":%s}", rows[i].body, rows[i].name, rows[i].value);
        client_expect(&server, "POST", path, "", body, 200, rows[i].effect);
        (void)snprintf(body, sizeof body, "%s,\"%s\":%s,\"%s\":%s}", rows[i].body, rows[i].name, rows[i].value,
                       rows[i].other, rows[i].other_value);
        client_expect(&server, "POST", path, "", body, 400, "\"type\":\"invalid_request_error\"");
    }
}

/* Each parameter of OpenAI's API that is not supported is refused by its name, whatever its value; the same with null,
 * which is as if it were missing, is answered. */
static void test_unsupported(void **state)
{
    static const struct {
        const char *path, *body; /* without its last brace */
    } requests[] = {
        { "completions", "{\"model\":\"count\",\"prompt\":\"xyz\",\"max_tokens\":1" },
        { "chat/completions",
          "{\"model\":\"count\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"xy\"}]" },
        { "responses", "{\"model\":\"count\",\"input\":\"xy\",\"max_output_tokens\":1" },
        { "embeddings", "{\"model\":\"vectors\",\"input\":\"a\"" },
    };
    enum { COMPLETIONS = 1, CHAT = 2, RESPONSES = 4, EMBEDDINGS = 8, ALL = 15 };
    static const struct {
        unsigned requests;
        const char *name, *value;
    } rows[] = {
        { ALL, "audio", "{\"voice\":\"a\",\"format\":\"wav\"}" },
        { ALL, "prediction", "{\"type\":\"content\",\"content\":\"x\"}" },
        { ALL, "web_search_options", "{}" },
        { RESPONSES | EMBEDDINGS, "verbosity", "\"low\"" },
        { ALL, "reasoning_effort", "\"low\"" },
        { ALL, "function_call", "\"auto\"" },
        { ALL, "prompt_cache_retention", "\"24h\"" },
        { ALL, "previous_response_id", "\"resp_1\"" },
        { ALL, "reasoning", "{\"effort\":\"low\"}" },
        { ALL, "conversation", "\"conv_1\"" },
        { ALL & ~COMPLETIONS, "prompt", "{\"id\":\"p\"}" },
        { ALL, "max_tool_calls", "1" },
        { ALL, "truncate_prompt_tokens", "4" },
        { ALL, "use_beam_search", "true" },
        { RESPONSES | EMBEDDINGS, "stop_token_ids", "[1]" },
        { ALL, "no_such_parameter", "0" },
        { COMPLETIONS | EMBEDDINGS, "tools", "[]" },
        { COMPLETIONS | EMBEDDINGS, "top_logprobs", "1" },
        { CHAT | RESPONSES | EMBEDDINGS, "best_of", "2" },
        { RESPONSES | EMBEDDINGS, "n", "2" },
        { RESPONSES | EMBEDDINGS, "seed", "0" },
        { RESPONSES | EMBEDDINGS, "logit_bias", "{}" },
        { RESPONSES | EMBEDDINGS, "stop", "\"x\"" },
        { RESPONSES, "background", "true" },
        { RESPONSES, "include", "[\"file_search_call.results\"]" },
        { COMPLETIONS | CHAT | RESPONSES, "dimensions", "3" },
        { COMPLETIONS | CHAT | RESPONSES, "encoding_format", "\"float\"" },
        { EMBEDDINGS, "temperature", "0" },
        { EMBEDDINGS, "stream", "false" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < sizeof requests / sizeof *requests; k++) {
            char path[64], body[512], part[128];

            if ((rows[i].requests >> k & 1) == 0)
                continue;
            (void)snprintf(path, sizeof path, "/v1/%s", requests[k].path);
            (void)snprintf(body, sizeof body, "%s,\"%s\":%s}", requests[k].body, rows[i].name, rows[i].value);
            (void)snprintf(part, sizeof part,
                           "\"type\":\"invalid_request_error\",\"param\":\"%s\",\"code\":", rows[i].name);
            client_expect(&server, "POST", path, "", body, 400, part);
            (void)snprintf(body, sizeof body, "%s,\"%s\":null}", requests[k].body, rows[i].name);
            client_expect(&server, "POST", path, "", body, 200, "");
        }
}

/* /v1/responses: whole and as events. */
static void test_responses(void **state)
{
#define RESPOND(more) "{\"model\":\"count\",\"max_output_tokens\":2,\"temperature\":0,\"input\":\"xy\"" more "}"
#define LONG "{\"model\":\"count\",\"max_output_tokens\":2,\"temperature\":0,\"input\":\"qwertasdfgyxcvbhjkpo\"}"
    static const struct {
        const char *body, *part;
        int code;
    } rows[] = {
        { RESPOND(""), "\"object\":\"response\"", 200 },
        { RESPOND(""),
          "\"status\":\"incomplete\",\"error\":null,\"incomplete_details\":{\"reason\":\"max_output_tokens\"}", 200 },
        { RESPOND(""), "\"content\":[{\"type\":\"output_text\",\"text\":\"CD\",\"annotations\":[],\"logprobs\":[]}]",
          200 },
        { RESPOND(""),
          "\"usage\":{\"input_tokens\":3,\"input_tokens_details\":{\"cached_tokens\":0,\"cache_write_tokens\":0},"
          "\"output_tokens\":2,",
          200 },
        { LONG, "\"input_tokens_details\":{\"cached_tokens\":0,\"cache_write_tokens\":21},", 200 },
        { LONG, "\"input_tokens_details\":{\"cached_tokens\":20,\"cache_write_tokens\":0},", 200 },
        { RESPOND(",\"instructions\":\"a\""), "\"text\":\"EF\"", 200 }, /* "sa" before "uxy" */
        { RESPOND(",\"instructions\":\"a\""), "\"instructions\":\"a\"", 200 },
        { RESPOND(",\"metadata\":{\"k\":\"v\"},\"tools\":[],\"truncation\":\"disabled\""),
          "\"metadata\":{\"k\":\"v\"}}", 200 },
        { RESPOND(",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"schema\":{\"enum\":[7]}}}"),
          "\"status\":\"completed\"", 200 },
        { RESPOND(",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"schema\":{\"enum\":[7]}}}"),
          "\"text\":\"7\"", 200 },
        { RESPOND(",\"text\":{\"format\":{\"name\":\"n\"}}"), "format has no type", 400 },
        { RESPOND(",\"previous_response_id\":\"resp_1\""), REFUSED("previous_response_id"), 400 },
        { RESPOND(",\"store\":true"), REFUSED("store"), 400 },
        { RESPOND(",\"truncation\":\"auto\""), REFUSED("truncation"), 400 },
        { "{\"model\":\"count\",\"max_output_tokens\":2,\"temperature\":0,\"input\":[{\"role\":\"user\",\"content\":[{"
          "\"type\":\"input_text\",\"text\":\"x\"}]},{\"type\":\"message\",\"role\":\"user\",\"content\":\"y\"}]}",
          "\"text\":\"DE\"", 200 },
        { "{\"model\":\"count\",\"input\":[{\"type\":\"computer_call\"}]}", "'message' is", 400 },
        { "{\"model\":\"count\"}", "the request has no input", 400 },
    };
    static const char *const events[] = {
        ("event: response.created\ndata: "
         "{\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_"),
        "\"status\":\"in_progress\"",
        "event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"sequence_number\":1,",
        "event: response.output_item.added\n",
        "event: response.content_part.added\n",
        "\"sequence_number\":4,\"item_id\":\"msg_",
        "\"logprobs\":[],\"delta\":\"C\"}\n\n",
        "\"logprobs\":[],\"delta\":\"D\"}\n\n",
        "event: response.output_text.done\n",
        "\"text\":\"CD\"}\n\n",
        "event: response.content_part.done\n",
        "event: response.output_item.done\n",
        "event: response.incomplete\n",
        "\"output\":[{\"type\":\"message\",\"id\":\"msg_",
    };
    static char got[65536];
    const char *at = got;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        client_expect(&server, "POST", "/v1/responses", "", rows[i].body, rows[i].code, rows[i].part);
    client_stream(&server, "/v1/responses", RESPOND(",\"stream\":true"), NULL, got, sizeof got);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        at = strstr(at, events[i]);
        if (at == NULL)
            fail_msg("no '%s' in its place: %s", events[i], got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chats),       cmocka_unit_test(test_parameters), cmocka_unit_test(test_names),
        cmocka_unit_test(test_unsupported), cmocka_unit_test(test_responses),  cmocka_unit_test(test_templates),
    };

    return cmocka_run_group_tests(tests, start, serving_tear_down);
}
