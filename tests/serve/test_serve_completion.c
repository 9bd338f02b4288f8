/* /v1/completions: texts as a whole and as events; clients that disconnect. */
#include "client.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server;

/* Every printable character is a token of its code; <|end|> follows 'y'. */
static void write_count(void)
{
    serving_model(&server, "count", "options: [state=old=new]\n", write_counting);
    serving_tokenizer(&server, "count", NULL);
    serving_file(&server, "models/count/config.json",
                 "{\"eos_token_id\": [201, 202, 203, 204, 205, 206, 207, 208, 209, 122]}", 0644);
}

#define MARK "\xe2\x96\x81" /* a space in SentencePiece */

/* A token id that is the code of a character is the token of that character; 1 is a space, 2 is " xy". In the Unigram
 * model 69 is " E". In SentencePiece's BPE model 3 is " x", 67 and 68 are the bytes of an accented e, and other bytes
 * are beyond the model's ids. */
static const char *piece_of(int id, bool unigram, char *out, size_t bytes)
{
    static const char *const first[] = { "<unk>", MARK, MARK "xy", MARK "x" };

    if (id < (unigram ? 3 : 4))
        (void)snprintf(out, bytes, "%s", first[id]);
    else if (unigram && id == 'E')
        (void)snprintf(out, bytes, "%s", MARK "E");
    else if (!unigram && (id == 'C' || id == 'D' || id >= 128))
        (void)snprintf(out, bytes, "<0x%02X>", id == 'C' ? 0xc3 : id == 'D' ? 0xa9 : id - 128);
    else if (id > ' ' && id <= '~')
        (void)snprintf(out, bytes, "%s%c", id == '"' || id == '\\' ? "\\" : "", id);
    else
        (void)snprintf(out, bytes, "<none %d>", id);
    return out;
}

static void write_pieces(void)
{
    static char text[16384];
    char piece[32];
    size_t used = (size_t)snprintf(
        text, sizeof text,
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"},\"pre_tokenizer\":{"
        "\"type\":\"Metaspace\",\"replacement\":\"" MARK "\",\"prepend_scheme\":\"always\"},\"decoder\":{\"type\":"
        "\"Metaspace\",\"replacement\":\"" MARK "\"},\"added_tokens\":[],\"model\":{\"type\":\"Unigram\",\"unk_id\":0,"
        "\"vocab\":[");

    for (int id = 0; id < 128; id++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s[\"%s\",%d]", id > 0 ? "," : "",
                                 piece_of(id, true, piece, sizeof piece), id == 2 ? -4 : -5);
    (void)snprintf(text + used, sizeof text - used, "]}}");
    serving_file(&server, "models/unigram/tokenizer.json", text, 0644);
    used = (size_t)snprintf(
        text, sizeof text,
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" MARK "\"},{"
        "\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARK "\"}]},\"pre_tokenizer\":null,"
        "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"" MARK "\"},"
        "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \","
        "\"start\":1,\"stop\":0}]},\"added_tokens\":[],\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_"
        "unk\":"
        "true,\"byte_fallback\":true,\"merges\":[\"" MARK " x\",\"" MARK "x y\"],\"vocab\":{");
    for (int id = 0; id < 128 + 256; id++)
        if (id != 128 + 0xc3 && id != 128 + 0xa9)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s\":%d", id > 0 ? "," : "",
                                     piece_of(id, false, piece, sizeof piece), id);
    (void)snprintf(text + used, sizeof text - used, "}}}");
    serving_file(&server, "models/spm/tokenizer.json", text, 0644);
}

static void write_six(const char *path)
{
    write_repeating(path, 6);
}

static void write_five(const char *path)
{
    write_repeating(path, 5);
}

static int start(void **state)
{
    static const char *const flags[] = { "--max-sequences", "4", NULL };

    *state = &server;
    serving_prepare(&server);
    write_count();
    serving_model(&server, "unigram", "options: [state=old=new]\n", write_counting);
    serving_model(&server, "spm", "options: [state=old=new]\n", write_counting);
    write_pieces();
    serving_file(&server, "models/unigram/config.json", "{\"max_position_embeddings\":100}", 0644);
    serving_model(&server, "qwen", "options: [state=old=new]\n", write_six);
    serving_tokenizer(&server, "qwen", "<|fim_prefix|> <|fim_suffix|> <|fim_middle|> <|endoftext|>");
    serving_model(&server, "named", "options: [state=old=new]\n", write_six);
    serving_tokenizer(&server, "named", "<a> <b> <c> <d>");
    serving_file(&server, "models/named/tokenizer_config.json",
                 "{\"prefix_token\":\"<b>\",\"suffix_token\":{\"content\":\"<a>\"},\"middle_token\":\"<c>\","
                 "\"eot_token\":\"<d>\"}",
                 0644);
    serving_model(&server, "codestral", "context: 20\noptions: [state=old=new]\n", write_five);
    serving_tokenizer(&server, "codestral", "[PREFIX] [SUFFIX]");
    serving_start(&server, flags);
    return 0;
}

static void expect(const char *body, int code, const char *part)
{
    client_expect(&server, "POST", "/v1/completions", "", body, code, part);
}

#define ASK(more) "{\"model\":\"count\",\"prompt\":\"xyz\",\"temperature\":0" more "}"

static void test_whole_texts(void **state)
{
    struct answer answer;

    (void)state;
    expect(ASK(",\"max_tokens\":5"), 200, "\"text\":\"CDEFG\",\"logprobs\":null,\"finish_reason\":\"length\"");
    assert_true(client_metric(&server, "inlay_tokens_total{model=\"count\",version=\"1\",kind=\"prompt\"}") == 3);
    assert_true(client_metric(&server, "inlay_tokens_total{model=\"count\",version=\"1\",kind=\"generated\"}") == 5);
    assert_true(client_metric(&server, "inlay_first_token_seconds_count{model=\"count\",version=\"1\"}") == 1);
    expect(ASK(",\"max_tokens\":5"), 200,
           "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":5,\"total_tokens\":8,\"prompt_tokens_details\":{"
           "\"cached_tokens\":0}}");
    expect(ASK(",\"max_tokens\":1"), 200, "\"text\":\"C\"");
    expect(ASK(""), 200, "\"text\":\"CDEFGHIJKLMNOPQR\""); /* 16 */
    expect(ASK(",\"max_tokens\":20,\"stop\":\"HI\""), 200,
           "\"text\":\"CDEFG\",\"logprobs\":null,\"finish_reason\":\"stop\"");
    expect(ASK(",\"max_tokens\":20,\"stop\":[\"XX\",\"FG\",\"KL\"]"), 200, "\"text\":\"CDE\"");
    expect(ASK(",\"max_tokens\":100"), 200, "wxy\",\"logprobs\":null,\"finish_reason\":\"stop\""); /* stops at 'z' */
    client_once(&server, "GET", "/v1/models", "", NULL, &answer);
    assert_non_null(strstr(answer.body, "{\"id\":\"count\",\"object\":\"model\""));
}

static double router_figure(const char *name)
{
    char series[160];

    (void)snprintf(series, sizeof series, "vllm:%s{model_name=\"count\"}", name);
    return client_metric(&server, series);
}

/* What the endpoint picker of the Gateway API Inference Extension and other routers read, by vLLM's names. */
static void test_router_figures(void **state)
{
    static const char *const used[] = { "kv_cache_usage_perc", "prefix_cache_hits_total", "prefix_cache_queries_total",
                                        "prompt_tokens_total", "e2e_request_latency_seconds_count" };
    double tokens, first, next;
    struct answer answer;

    (void)state;
    expect(ASK(",\"max_tokens\":1"), 200, "\"text\":\"C\"");
    tokens = router_figure("generation_tokens_total");
    first = router_figure("time_to_first_token_seconds_count");
    next = router_figure("inter_token_latency_seconds_count");
    assert_true(first > 0 && tokens > 0 && next >= 0);
    expect(ASK(",\"max_tokens\":5"), 200, "\"text\":\"CDEFG\"");
    assert_true(router_figure("generation_tokens_total") == tokens + 5);
    assert_true(router_figure("time_to_first_token_seconds_count") == first + 1);
    assert_true(router_figure("inter_token_latency_seconds_count") == next + 4);
    assert_true(router_figure("time_per_output_token_seconds_count") == next + 4);
    assert_true(router_figure("num_requests_running") == 0 && router_figure("num_requests_waiting") == 0);
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        assert_true(router_figure(used[i]) >= 0);
    client_once(&server, "GET", "/metrics", "", NULL, &answer);
    assert_non_null(strstr(answer.body, "vllm:lora_requests_info{model_name=\"count\",max_lora=\"0\",running_lora_"
                                        "adapters=\"\",waiting_lora_adapters=\"\"} "));
    assert_null(strstr(answer.body, "vllm:num_requests_running{model_name=\"twice\"}"));
    client_once(&server, "GET", "/v1/models/count", "", NULL, &answer);
    assert_non_null(strstr(answer.body, "\"root\":\"count\""));
}

static void test_rejected_requests(void **state)
{
    (void)state;
    expect("{\"model\":\"none\",\"prompt\":\"x\"}", 404, "no such model");
    expect("{\"model\":\"twice\",\"prompt\":\"x\"}", 400, "not a model for texts");
    expect("{\"model\":\"count\"}", 400, "no prompt");
    expect("{\"prompt\":\"x\"}", 400, "no model");
    expect("{\"model\":\"count\",\"prompt\":\"\"}", 400, "no tokens");
    expect("{\"model\":\"count\",\"prompt\":[65,999]}", 400, "no token 999");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"n\":200}", 400, "too large");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"temperature\":-1}", 400, "too small");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"max_tokens\":-2}", 400, "too small");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"stop\":[\"a\",\"b\",\"c\",\"d\",\"e\"]}", 400, "more than 4");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"logit_bias\":{\"99999999\":1}}", 400, "no token 99999999");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"stop_token_ids\":[-1]}", 400, "no token -1");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"min_tokens\":20}", 400, "larger than max_tokens");
    expect("{\"model\":\"count\"", 400, "JSON");
    expect("{\"model\":\"count\",\"prompt\":\"x\\u0000\"}", 400,
           "the request's JSON, byte 35: the character U+0000 is not supported");
    expect("", 400, "JSON");
}

/* Texts that no model could take are not split into tokens; others that exceed the context are. */
static void test_long_texts(void **state)
{
    static char body[20100];
    static const char start_of_prompt[] = "{\"model\":\"unigram\",\"prompt\":\"";

    (void)state;
    (void)snprintf(body, sizeof body, "%s%0*d\"}", start_of_prompt, 20000, 0);
    expect(body, 400, "the prompt has 20000 bytes, and the model takes at most");
    expect(body, 400, "\"code\":\"context_length_exceeded\"");
    (void)snprintf(body, sizeof body, "%s%0*d\"}", start_of_prompt, 150, 0);
    expect(body, 400, "the prompt has 1");
    expect(body, 400, "tokens, and the model's context, with the reply, 100");
    expect("{\"model\":\"codestral\",\"prompt\":\"0123456789012345678\"}", 200, "\"completion_tokens\":1,");
    expect("{\"model\":\"codestral\",\"prompt\":\"01234567890123456789\"}", 400,
           "tokens, and the model's context, with the reply, 20"); /* by its config.yaml */
}

/* The prompt of a text between two others has the tokens of the model's form, in its order. The models repeat them. */
static void test_infill(void **state)
{
#define FILL(model, prompt, suffix, more)                                                                              \
    "{\"model\":\"" model "\",\"prompt\":" prompt ",\"suffix\":\"" suffix "\",\"temperature\":0,\"max_tokens\":6" more \
    "}"
#define STOP(token) ",\"stop_token_ids\":[" token "]"
    static const struct {
        const char *body, *part;
    } rows[] = {
        { FILL("qwen", "\"ab\"", "c", ""), "\"text\":\"abc\",\"logprobs\":null,\"finish_reason\":\"length\"" },
        { FILL("qwen", "\"ab\"", "c", ""), "\"prompt_tokens\":6," },
        { FILL("qwen", "\"ab\"", "c", STOP("1")), "\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"stop\"" },
        { FILL("qwen", "\"ab\"", "c", STOP("2")), "\"text\":\"ab\",\"logprobs\":null,\"finish_reason\":\"stop\"" },
        { FILL("qwen", "\"ab\"", "c", STOP("3")), "\"text\":\"abc\",\"logprobs\":null,\"finish_reason\":\"stop\"" },
        { FILL("qwen", "\"a<|endoftext|>\"", "c", ""), /* ends the text, although the model does not say so */
          "\"text\":\"a\",\"logprobs\":null,\"finish_reason\":\"stop\"" },
        { FILL("qwen", "[\"ab\",\"cd\"]", "e", ""), "\"text\":\"cde\"" },
        { FILL("named", "\"ab\"", "c", STOP("2")), "\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"stop\"" },
        { FILL("named", "\"ab\"", "c", STOP("1")), "\"text\":\"ab\",\"logprobs\":null,\"finish_reason\":\"stop\"" },
        { FILL("named", "\"a<d>\"", "c", ""), "\"text\":\"a\",\"logprobs\":null,\"finish_reason\":\"stop\"" },
        { FILL("codestral", "\"ab\"", "c", ""), "\"text\":\"cab\"" },
        { FILL("codestral", "\"ab\"", "c", STOP("2")), "\"text\":\"\"" },
        { FILL("codestral", "\"ab\"", "c", STOP("1")), "\"text\":\"c\"" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect(rows[i].body, 200, rows[i].part);
    expect(FILL("qwen", "[97,98]", "c", ""), 400, "suffix needs prompts that are texts, not tokens");
    expect(FILL("qwen", "\"ab\"", "c", ",\"echo\":true"), 400, "echo is not supported together with suffix");
}

/* The forms of llama-server's /infill and of KServe's generate. */
static void test_other_forms(void **state)
{
    static const struct {
        const char *path, *body, *part;
        int code;
    } rows[] = {
        { "/infill",
          "{\"model\":\"qwen\",\"input_prefix\":\"ab\",\"input_suffix\":\"c\",\"temperature\":0,\"n_predict\":6}",
          "{\"index\":0,\"content\":\"abc\",\"stop\":true,\"model\":\"qwen\",\"stop_type\":\"limit\",\"tokens_"
          "predicted\":6,\"tokens_evaluated\":6,",
          200 },
        { "/infill",
          "{\"model\":\"qwen\",\"input_prefix\":\"ab\",\"input_suffix\":\"c\",\"temperature\":0,\"stop\":\"b\"}",
          "\"content\":\"a\",\"stop\":true,\"model\":\"qwen\",\"stop_type\":\"word\"", 200 },
        { "/infill",
          "{\"model\":\"qwen\",\"input_prefix\":\"abc\",\"input_suffix\":\"\",\"temperature\":0,\"n_predict\":1}",
          "\"tokens_evaluated\":6,", 200 },
        { "/infill", "{\"model\":\"qwen\",\"input_prefix\":\"ab\"}", "no input_suffix", 400 },
        { "/infill", "{\"input_prefix\":\"ab\",\"input_suffix\":\"c\"}", "no model", 400 },
        { "/infill", "{\"model\":\"qwen\",\"input_prefix\":\"ab\",\"input_suffix\":\"c\",\"n\":2}", "returns one",
          400 },
        { "/completion",
          "{\"model\":\"count\",\"prompt\":\"xyz\",\"temperature\":0,\"n_predict\":3,\"repeat_last_n\":64}",
          "{\"index\":0,\"content\":\"CDE\",\"stop\":true,\"model\":\"count\",\"stop_type\":\"limit\",", 200 },
        { "/completion", "{\"model\":\"count\",\"prompt\":\"xyz\",\"temperature\":0,\"stop\":[\"NO\"]}",
          "\"content\":\"CDEFGHIJKLM\",\"stop\":true,\"model\":\"count\",\"stop_type\":\"word\"", 200 },
        { "/completion", "{\"model\":\"count\",\"prompt\":\"xyz\",\"temperature\":0,\"stop\":[\"NO\"]}",
          "\"stopping_word\":\"NO\"}", 200 },
        { "/completion", "{\"model\":\"count\",\"prompt\":\"xyz\",\"n_keep\":3}", "n_keep: not supported", 400 },
        { "/v2/models/count/generate", "{\"text_input\":\"xyz\",\"parameters\":{\"max_tokens\":3,\"temperature\":0}}",
          "{\"model_name\":\"count\",\"model_version\":\"1\",\"text_output\":\"CDE\",\"details\":{\"finish_reason\":"
          "\"length\",\"generated_tokens\":3}}",
          200 },
        { "/v2/models/count/versions/1/generate",
          "{\"text_input\":\"xyz\",\"max_tokens\":9,\"temperature\":0,\"stop\":[\"E\"]}",
          "\"text_output\":\"CD\",\"details\":{\"finish_reason\":\"stop_sequence\"", 200 },
        { "/v2/models/count/versions/2/generate", "{\"text_input\":\"xyz\"}", "no such model", 404 },
        { "/v2/models/count/generate", "{\"text_input\":\"xyz\",\"parameters\":{\"beams\":3}}",
          "{\"error\":\"parameters: beams: not supported", 400 },
        { "/v2/models/count/generate", "{\"text_input\":\"xyz\",\"parameters\":{\"logprobs\":3}}",
          "no log probabilities", 400 },
        { "/v2/models/count/generate", "{}", "no text_input", 400 },
        { "/v2/models/twice/generate", "{\"text_input\":\"x\"}", "not a model for texts", 400 },
    };
    static char got[65536];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        client_expect(&server, "POST", rows[i].path, "", rows[i].body, rows[i].code, rows[i].part);
    client_stream(&server, "/v2/models/count/generate_stream",
                  "{\"text_input\":\"xyz\",\"max_tokens\":2,\"temperature\":0}", "\"generated_tokens\"", got,
                  sizeof got);
    assert_non_null(strstr(got, "data: {\"model_name\":\"count\",\"model_version\":\"1\",\"text_output\":\"C\"}\n\n"));
    assert_non_null(strstr(got, "\"text_output\":\"D\"}\n\n"));
    assert_non_null(strstr(got, "\"text_output\":\"\",\"details\":{\"finish_reason\":\"length\""));
    client_stream(&server, "/infill",
                  "{\"model\":\"qwen\",\"input_prefix\":\"ab\",\"input_suffix\":\"c\",\"temperature\":0,\"n_predict\":"
                  "6,\"stream\":true}",
                  "\"stop\":true", got, sizeof got);
    assert_non_null(strstr(got, "data: {\"index\":0,\"content\":\"a\",\"stop\":false}\n\n"));
}

/* The events of a stream, up to `part` unless that is NULL. */
static void stream(const char *body, const char *part, char *text, size_t bytes)
{
    client_stream(&server, "/v1/completions", body, part, text, bytes);
}

/* Concatenates the texts of the events. */
static void texts_of(const char *events, char *out, size_t bytes)
{
    size_t used = 0;

    for (const char *at = events; (at = strstr(at, "\"text\":\"")) != NULL;) {
        at += strlen("\"text\":\"");
        used += (size_t)snprintf(out + used, bytes - used, "%.*s", (int)strcspn(at, "\""), at);
    }
    out[used] = '\0';
}

static void test_events(void **state)
{
    static char got[65536];
    char text[256];

    (void)state;
    stream(ASK(",\"max_tokens\":20,\"stream\":true,\"stop\":\"MN\""), NULL, got, sizeof got);
    assert_non_null(strstr(got, "Content-Type: text/event-stream"));
    assert_non_null(strstr(got, "\"text\":\"C\",\"logprobs\":null,\"finish_reason\":null"));
    assert_non_null(strstr(got, "\"finish_reason\":\"stop\"}]}\n\n"));
    assert_non_null(strstr(got, "data: [DONE]\n\n"));
    texts_of(got, text, sizeof text);
    assert_string_equal(text, "CDEFGHIJKL");
    stream(ASK(",\"max_tokens\":-2,\"stream\":true"), NULL, got, sizeof got);
    assert_non_null(strstr(got, "HTTP/1.1 400"));
}

/* A client that reads nothing: its text ends once a MiB of events waits for it, beside what the system buffers. */
static void test_unread_events(void **state)
{
    static const char body[] = "{\"model\":\"qwen\",\"prompt\":\"abcdefgh\",\"max_tokens\":65536,\"ignore_eos\":true,"
                               "\"temperature\":0,\"stream\":true,\"logprobs\":20}";
    static const char generated[] = "inlay_tokens_total{model=\"qwen\",version=\"1\",kind=\"generated\"}";
    static const char running[] = "vllm:num_requests_running{model_name=\"qwen\"}";
    static char got[4096], end[4096];
    char head[256];
    ssize_t count, kept = 0;
    int fd = client_connect(&server);

    (void)state;
    (void)snprintf(head, sizeof head, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
                   sizeof body - 1);
    client_text(fd, head);
    client_text(fd, body);
    for (int i = 0; client_metric(&server, generated) < 1000 || client_metric(&server, running) > 0; i++) {
        if (i == 12000)
            fail_msg("the text does not end");
        (void)usleep(5000);
    }
    assert_true(client_metric(&server, "inlay_inflight_bytes") < (2 << 20));
    assert_true(client_metric(&server, generated) < 60000);
    while ((count = recv(fd, got, sizeof got - 1, 0)) > 0) { /* what was generated ends with the reason */
        const ssize_t from = kept + count < (ssize_t)sizeof end ? 0 : kept + count - (ssize_t)sizeof end + 1;

        if (from > 0 && from < kept)
            memmove(end, end + from, (size_t)(kept - from));
        kept = from < kept ? kept - from : 0;
        memcpy(end + kept, got, (size_t)count);
        kept += count;
        end[kept] = '\0';
        if (strstr(end, "0\r\n\r\n") != NULL)
            break;
    }
    assert_non_null(strstr(end, "the client does not read"));
    (void)close(fd);
    client_await(&server, "inlay_inflight_bytes", 0);
}

/* More texts than there are slots: finished and abandoned ones release theirs. */
static void test_abandoned_requests(void **state)
{
    static char got[65536];

    (void)state;
    for (int i = 0; i < 20; i++)
        stream(ASK(",\"max_tokens\":57,\"stream\":true"), i % 2 == 0 ? "\"text\":\"D\"" : "HTTP/1.1", got, sizeof got);
    client_await(&server, "inlay_http_requests", 1);
    for (int i = 0; i < 6; i++)
        expect(ASK(",\"max_tokens\":2"), 200, "\"text\":\"CD\"");
}

/* The same seed, 0 too, gives the same text; other seeds and none give others. */
static void test_seeds(void **state)
{
    static const char *const seeds[] = { ",\"seed\":0", ",\"seed\":0", ",\"seed\":1", "" };
    char body[160], texts[4][512];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct answer answer;

        (void)snprintf(body, sizeof body,
                       "{\"model\":\"count\",\"prompt\":\"x\",\"temperature\":2,\"max_tokens\":32%s}", seeds[i]);
        client_once(&server, "POST", "/v1/completions", "", body, &answer);
        assert_int_equal(answer.code, 200);
        texts_of(answer.body, texts[i], sizeof texts[i]);
    }
    assert_string_equal(texts[0], texts[1]);
    assert_string_not_equal(texts[0], texts[2]);
    assert_string_not_equal(texts[0], texts[3]);
}

/* The prompt determines where the model starts to count: pieces and bytes are tokens, spaces part of them. */
static void test_sentence_pieces(void **state)
{
    static const struct {
        const char *body, *part;
    } rows[] = {
#define OF(model, prompt, more) "{\"model\":\"" model "\",\"prompt\":\"" prompt "\",\"temperature\":0" more "}"
        { OF("unigram", "xy", ",\"max_tokens\":6"), "\"text\":\"ABCD EF\"" }, /* " xy" is one token */
        { OF("unigram", "xy", ",\"max_tokens\":6"), "\"prompt_tokens\":1,\"completion_tokens\":6" },
        { OF("unigram", "x  xyz", ",\"max_tokens\":2"), "\"text\":\"D E\"" },             /* " ", "x", " xy", "z" */
        { OF("unigram", "\\u00e9\\u00e9", ",\"max_tokens\":1"), "\"prompt_tokens\":2," }, /* " ", unknown */
        { OF("unigram", "xy", ",\"max_tokens\":9,\"stop\":\"D E\""), "\"text\":\"ABC\"" },
        { OF("spm", "xy", ",\"max_tokens\":5"), "\"text\":\"AB\xc3\xa9"
                                                "E\"" },
        { OF("spm", "x xy", ",\"max_tokens\":3"), "\"text\":\"B\xc3\xa9\"" }, /* " x", " xy" */
        { OF("spm", "xy\\u00e9", ",\"max_tokens\":3"), "\"text\":\"\xc3\xa9"
                                                       "E\"" }, /* " xy", two bytes */
        { OF("spm", "xy\\u00e8", ",\"max_tokens\":3"), "\"prompt_tokens\":3," },
        { OF("spm", "xy", ",\"max_tokens\":9,\"stop\":\"\\u00e9\""), "\"text\":\"AB\"" },
    };
    static char events[65536];
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect(rows[i].body, 200, rows[i].part);
    stream(OF("spm", "xy", ",\"max_tokens\":5,\"stream\":true"), NULL, events, sizeof events);
    assert_non_null(strstr(events, "\"text\":\"\xc3\xa9\"")); /* both bytes in one event */
    texts_of(events, text, sizeof text);
    assert_string_equal(text, "AB\xc3\xa9"
                              "E");
}

static void *ask_many(void *user)
{
    static char got[4][65536];
    char text[256];

    for (int i = 0; i < 10; i++) {
        char *mine = got[(size_t)user];

        stream(ASK(",\"max_tokens\":30,\"stream\":true"), NULL, mine, sizeof got[0]);
        texts_of(mine, text, sizeof text);
        if (strcmp(text, "CDEFGHIJKLMNOPQRSTUVWXYZ[\\\\]^_`") != 0)
            return strdup(mine);
    }
    return NULL;
}

/* Concurrent texts have separate states. */
static void test_concurrent_texts(void **state)
{
    pthread_t threads[4];

    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_many, (void *)i), 0);
    for (size_t i = 0; i < 4; i++) {
        void *wrong;

        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        if (wrong != NULL)
            fail_msg("another text came: %s", (char *)wrong);
    }
}

/* Three models with memory for two. */
static int start_small(void **state)
{
    const char *flags[] = { "--max-sequences", "4", "--models-memory", NULL, NULL };
    char budget[32];

    *state = &server;
    serving_prepare_empty(&server);
    write_count();
    serving_model(&server, "vectors", NULL, write_vectors);
    serving_tokenizer(&server, "vectors", NULL);
    serving_model(&server, "others", NULL, write_vectors);
    serving_tokenizer(&server, "others", NULL);
    serving_start(&server, NULL);
    (void)snprintf(budget, sizeof budget, "%.0f", client_metric(&server, "inlay_models_bytes") - 1);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
    flags[3] = budget;
    serving_start(&server, flags);
    return 0;
}

static void expect_asleep(const char *model)
{
    struct answer answer;
    char part[96];

    client_once(&server, "POST", "/v2/repository/index", "", "", &answer);
    (void)snprintf(part, sizeof part, "{\"name\":\"%s\",\"version\":\"1\",\"state\":\"UNAVAILABLE\"", model);
    assert_non_null(strstr(answer.body, part));
    client_once(&server, "GET", "/v1/models", "", NULL, &answer);
    (void)snprintf(part, sizeof part, "{\"id\":\"%s\"", model);
    assert_non_null(strstr(answer.body, part));
}

/* Uses the other models, so that `count` is unloaded. */
static void make_count_sleep(void)
{
    client_expect(&server, "POST", "/v1/embeddings", "", "{\"model\":\"vectors\",\"input\":\"a\"}", 200,
                  "\"embedding\":");
    client_expect(&server, "POST", "/v1/embeddings", "", "{\"model\":\"others\",\"input\":\"a\"}", 200,
                  "\"embedding\":");
    expect_asleep("count");
}

/* A text wakes the model that it needs: as a whole, as events, as vectors; a client that leaves meanwhile. */
static void test_texts_wake_models(void **state)
{
    static const char events[] = ASK(",\"max_tokens\":5,\"stream\":true");
    static char text[65536];
    char whole[512];
    int fd;

    (void)state;
    expect_asleep("vectors"); /* model vectors was never loaded */
    make_count_sleep();
    expect(ASK(",\"max_tokens\":5"), 200, "\"text\":\"CDEFG\"");
    make_count_sleep();
    stream(events, NULL, text, sizeof text);
    texts_of(text, whole, sizeof whole);
    assert_string_equal(whole, "CDEFG");
    assert_non_null(strstr(text, "data: [DONE]"));
    make_count_sleep();
    expect("{\"model\":\"count\",\"prompt\":\"\"}", 400, "no tokens"); /* found after the model was loaded */
    make_count_sleep();
    fd = client_connect(&server);
    (void)snprintf(text, sizeof text,
                   "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s", strlen(events),
                   events);
    client_text(fd, text);
    (void)close(fd);
    expect(ASK(",\"max_tokens\":5"), 200, "\"text\":\"CDEFG\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_texts),
        cmocka_unit_test(test_rejected_requests),
        cmocka_unit_test(test_long_texts),
        cmocka_unit_test(test_infill),
        cmocka_unit_test(test_other_forms),
        cmocka_unit_test(test_router_figures),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_unread_events),
        cmocka_unit_test(test_abandoned_requests),
        cmocka_unit_test(test_concurrent_texts),
        cmocka_unit_test(test_sentence_pieces),
        cmocka_unit_test(test_seeds),
    };
    const struct CMUnitTest small[] = { cmocka_unit_test(test_texts_wake_models) };
    int failed;

    failed = cmocka_run_group_tests(tests, start, serving_tear_down);
    return failed + cmocka_run_group_tests(small, start_small, serving_tear_down);
}
