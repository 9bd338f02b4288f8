/* gguf_tokenizer.c - the tokenizer of a GGUF file as a tokenizer.json, and what else belongs to it in the files
 * tokenizer_config.json and config.json of Hugging Face. */
#include "formats/gguf.h"
#include "formats/onnx_write.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <string.h>

enum {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN,
    TOKEN_CONTROL,
    TOKEN_USER,
    TOKEN_UNUSED,
    TOKEN_BYTE
}; /* tokenizer.ggml.token_type */

/* Patterns of tokenizer.ggml.pre, as texts of JSON. */
#define ENGLISH "'s|'t|'re|'ve|'m|'ll|'d"
#define GPT2 ENGLISH "| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+"
#define CL100K(digits)                                                                                                 \
    "(?i:" ENGLISH ")|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}" digits                                         \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define O200K                                                                                                          \
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{"  \
    "M}]+"                                                                                                             \
    "(?i:" ENGLISH ")?|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+"                  \
    "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*(?i:" ENGLISH ")?|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*"  \
    "|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

struct splitter {
    const char *name, *pattern;
    bool digits;                 /* each is a word of its own before the pattern is applied */
    bool ignores_merges, begins; /* begins: a text begins with the first token unless the file says otherwise */
};

static const struct splitter splitters[] = {
    { .name = "gpt-2", .pattern = GPT2 },
    { .name = "phi-2", .pattern = GPT2 },
    { .name = "smollm", .pattern = GPT2, .digits = true },
    { .name = "starcoder", .pattern = GPT2, .digits = true },
    { .name = "refact", .pattern = GPT2, .digits = true },
    { .name = "qwen2", .pattern = CL100K("") },
    { .name = "gpt-4o", .pattern = O200K },
    { .name = "llama-bpe", .pattern = CL100K("{1,3}"), .ignores_merges = true, .begins = true },
    { .name = "llama3", .pattern = CL100K("{1,3}"), .ignores_merges = true, .begins = true },
    { .name = "llama-v3", .pattern = CL100K("{1,3}"), .ignores_merges = true, .begins = true },
};

static void add_quoted(struct strbuf *json, struct gguf_text text)
{
    strbuf_json(json, text.data, text.bytes);
}

struct tokenizer {
    struct gguf_value *tokens, *types, *scores, *merges;
    struct strbuf json;
    inlay_diag *diag;
};

static int64_t type_of_token(const struct tokenizer *t, uint64_t id)
{
    return t->types != NULL ? (int64_t)gguf_item(t->types, id) : TOKEN_NORMAL;
}

/* Tokens that are found in a text before it is split. */
static void add_special_tokens(struct tokenizer *t)
{
    const uint8_t *at = t->tokens->data;
    bool first = true;

    strbuf_text(&t->json, "\"added_tokens\":[");
    for (uint64_t id = 0; id < t->tokens->count; id++) {
        const struct gguf_text token = gguf_next_text(&at);
        const int64_t type = type_of_token(t, id);

        if ((type != TOKEN_CONTROL && type != TOKEN_USER && type != TOKEN_UNKNOWN) || token.bytes == 0)
            continue;
        strbuf_format(&t->json, "%s{\"id\":%" PRIu64 ",\"content\":", first ? "" : ",", id);
        add_quoted(&t->json, token);
        strbuf_format(&t->json, ",\"special\":%s,\"normalized\":false}", type == TOKEN_USER ? "false" : "true");
        first = false;
    }
    strbuf_text(&t->json, "]");
}

/* The token that begins a text, if the file wants one, and the one that ends it. */
static void add_post_processor(struct tokenizer *t, struct gguf *gguf, bool begins)
{
    const int64_t begin = gguf_int(gguf, "tokenizer.ggml.bos_token_id", -1);
    const int64_t end = gguf_int(gguf, "tokenizer.ggml.eos_token_id", -1);
    const bool ends = gguf_flag(gguf, "tokenizer.ggml.add_eos_token", false) && end >= 0;

    begins = gguf_flag(gguf, "tokenizer.ggml.add_bos_token", begins) && begin >= 0;
    strbuf_text(&t->json, ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[");
    if (begins)
        strbuf_text(&t->json, "{\"SpecialToken\":{\"id\":\"begin\"}},");
    strbuf_text(&t->json, "{\"Sequence\":{\"id\":\"A\"}}");
    if (ends)
        strbuf_text(&t->json, ",{\"SpecialToken\":{\"id\":\"end\"}}");
    strbuf_format(&t->json, "],\"special_tokens\":{\"begin\":{\"ids\":[%" PRId64 "]},\"end\":{\"ids\":[%" PRId64 "]}}}",
                  begin, end);
}

/* "text": id for each token; scores instead: a list of [text, score]. */
static void add_vocabulary(struct tokenizer *t, bool scored)
{
    const uint8_t *at = t->tokens->data;

    strbuf_text(&t->json, scored ? "\"vocab\":[" : "\"vocab\":{");
    for (uint64_t id = 0; id < t->tokens->count; id++) {
        const struct gguf_text token = gguf_next_text(&at);

        strbuf_text(&t->json, id > 0 ? "," : "");
        strbuf_text(&t->json, scored ? "[" : "");
        add_quoted(&t->json, token);
        if (scored)
            strbuf_format(&t->json, ",%.9g]", gguf_item(t->scores, id));
        else
            strbuf_format(&t->json, ":%" PRIu64, id);
    }
    strbuf_text(&t->json, scored ? "]" : "}");
}

static inlay_status add_byte_level(struct tokenizer *t, struct gguf *gguf)
{
    const struct gguf_text name = gguf_string(gguf, "tokenizer.ggml.pre");
    const struct splitter *splitter = NULL;
    const uint8_t *at;

    for (size_t i = 0; i < sizeof splitters / sizeof *splitters && splitter == NULL; i++)
        splitter = gguf_text_is(name, splitters[i].name) ? &splitters[i] : NULL;
    if (splitter == NULL)
        return inlay_fail(t->diag, INLAY_UNSUPPORTED, "the tokenizer of the GGUF file splits texts by the rule '%.*s'",
                          name.data != NULL ? (int)(name.bytes < 60 ? name.bytes : 60) : 7,
                          name.data != NULL ? name.data : "default");
    if (t->merges == NULL || t->merges->item_type != GGUF_STRING)
        return inlay_fail(t->diag, INLAY_INVALID_MODEL, "the tokenizer of the GGUF file has no merges");
    add_post_processor(t, gguf, splitter->begins);
    strbuf_text(&t->json, ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
    if (splitter->digits)
        strbuf_text(&t->json, "{\"type\":\"Digits\",\"individual_digits\":true},");
    strbuf_format(&t->json,
                  "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Isolated\"},"
                  "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},"
                  "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"ignore_merges\":%s,\"merges\":[",
                  splitter->pattern, splitter->ignores_merges ? "true" : "false");
    at = t->merges->data;
    for (uint64_t i = 0; i < t->merges->count; i++) {
        strbuf_text(&t->json, i > 0 ? "," : "");
        add_quoted(&t->json, gguf_next_text(&at));
    }
    strbuf_text(&t->json, "],");
    add_vocabulary(t, false);
    strbuf_text(&t->json, "}}");
    return INLAY_OK;
}

/* SentencePiece's BPE, which merges by scores. */
static inlay_status add_sentencepiece(struct tokenizer *t, struct gguf *gguf)
{
    const int64_t unknown = gguf_int(gguf, "tokenizer.ggml.unknown_token_id", 0);
    const uint8_t *at = t->tokens->data;
    struct gguf_text unknown_text = { "", 0 };

    if (t->scores == NULL || t->scores->item_type != GGUF_FLOAT32 || t->scores->count != t->tokens->count)
        return inlay_fail(t->diag, INLAY_INVALID_MODEL, "the tokenizer of the GGUF file has no score for each token");
    for (uint64_t id = 0; id < t->tokens->count && unknown >= 0 && id <= (uint64_t)unknown; id++)
        unknown_text = gguf_next_text(&at);
    add_post_processor(t, gguf, true);
    strbuf_text(&t->json, ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    if (gguf_flag(gguf, "tokenizer.ggml.add_space_prefix", true))
        strbuf_text(&t->json, "{\"type\":\"Prepend\",\"prepend\":\"\u2581\"},");
    strbuf_text(&t->json, "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}]},"
                          "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":"
                          "{\"String\":\"\u2581\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}");
    if (gguf_flag(gguf, "tokenizer.ggml.add_space_prefix", true))
        strbuf_text(&t->json, ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}");
    strbuf_text(&t->json, "]},\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"fuse_unk\":true,\"unk_token\":");
    add_quoted(&t->json, unknown_text);
    strbuf_text(&t->json, ",");
    add_vocabulary(t, true);
    strbuf_text(&t->json, "}}");
    return INLAY_OK;
}

/* config.json: the tokens that end a text or a turn, and the context. */
static void write_config(struct gguf *gguf, struct wire *out)
{
    static const char *const keys[] = { "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id" };
    struct strbuf json = { 0 };
    bool first = true;

    strbuf_text(&json, "{\"eos_token_id\":[");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const int64_t id = gguf_int(gguf, keys[i], -1);

        if (id >= 0)
            strbuf_format(&json, "%s%" PRId64, first ? "" : ",", id);
        first = first && id < 0;
    }
    strbuf_format(&json, "],\"max_position_embeddings\":%" PRId64 "}", gguf_int(gguf, ".context_length", 0));
    onnx_property(out, "config.json", json.data, json.size);
    out->failed |= json.failed;
    strbuf_deinit(&json);
}

/* The text of the token with the id of a key. */
static struct gguf_text token_of(struct gguf *gguf, const struct gguf_value *tokens, const char *key)
{
    const int64_t id = gguf_int(gguf, key, -1);
    const uint8_t *at = tokens->data;
    struct gguf_text text = { NULL, 0 };

    if (id < 0 || (uint64_t)id >= tokens->count)
        return text;
    for (int64_t i = 0; i <= id; i++)
        text = gguf_next_text(&at);
    return text;
}

static void add_member(struct strbuf *json, const char *key, struct gguf_text text)
{
    if (text.data == NULL)
        return;
    strbuf_format(json, "%s\"%s\":", json->size > 1 ? "," : "", key);
    add_quoted(json, text);
}

/* tokenizer_config.json: the chat template and the texts of the tokens that begin and end a text. */
static void write_tokenizer_config(struct gguf *gguf, const struct gguf_value *tokens, struct wire *out)
{
    struct strbuf json = { 0 };

    strbuf_text(&json, "{");
    add_member(&json, "bos_token", token_of(gguf, tokens, "tokenizer.ggml.bos_token_id"));
    add_member(&json, "eos_token", token_of(gguf, tokens, "tokenizer.ggml.eos_token_id"));
    add_member(&json, "chat_template", gguf_string(gguf, "tokenizer.chat_template"));
    strbuf_text(&json, "}");
    onnx_property(out, "tokenizer_config.json", json.data, json.size);
    out->failed |= json.failed;
    strbuf_deinit(&json);
}

inlay_status gguf_write_tokenizer(struct gguf *gguf, struct wire *out, inlay_diag *diag)
{
    const struct gguf_text model = gguf_string(gguf, "tokenizer.ggml.model");
    struct tokenizer t = { .tokens = gguf_find(gguf, "tokenizer.ggml.tokens"),
                           .types = gguf_find(gguf, "tokenizer.ggml.token_type"),
                           .scores = gguf_find(gguf, "tokenizer.ggml.scores"),
                           .merges = gguf_find(gguf, "tokenizer.ggml.merges"),
                           .diag = diag };
    inlay_status status;

    if (model.data == NULL || gguf_text_is(model, "no_vocab") || gguf_text_is(model, "none"))
        return INLAY_OK;
    if (t.tokens == NULL || t.tokens->item_type != GGUF_STRING ||
        (t.types != NULL && (t.types->item_type != GGUF_INT32 || t.types->count != t.tokens->count)))
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "the tokenizer of the GGUF file has no tokens, or not a type for each");
    strbuf_text(&t.json, "{");
    add_special_tokens(&t);
    if (gguf_text_is(model, "gpt2"))
        status = add_byte_level(&t, gguf);
    else if (gguf_text_is(model, "llama"))
        status = add_sentencepiece(&t, gguf);
    else
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "the tokenizer of the GGUF file is of the kind '%.*s'",
                            (int)(model.bytes < 60 ? model.bytes : 60), model.data);
    if (status == INLAY_OK) {
        onnx_property(out, "tokenizer.json", t.json.data, t.json.size);
        write_tokenizer_config(gguf, t.tokens, out);
        write_config(gguf, out);
        out->failed |= t.json.failed;
    }
    strbuf_deinit(&t.json);
    return status;
}
