/* json_named.c - the pre-tokenizers of GGUF files, by the names that their key tokenizer.ggml.pre has. The host's
 * reader of these files writes {"type": "GGUF", "name": ...}.
 *
 * The expressions are those of the models' own tokenizer.json where llama.cpp's are approximations, which
 * tests/formats/splitters_peer.py names and compares: there, letters other than ASCII are of both cases and marks are
 * no letters (gpt-4o, tekken, kimi-k2), case does not count (tiny_aya, youtu), or spaces before digits are divided
 * (afmoe). */
#include "prepost/text/json_parts.h"

#define ENGLISH "'s|'t|'re|'ve|'m|'ll|'d"
#define ENDS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2 ENGLISH "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CL100K(digits) "(?i:" ENGLISH ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits ENDS
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(english, digits)                                                                                         \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" english "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" english         \
    "|\\p{N}" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define ASCII_MARKS "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
#define DEEPSEEK(ends) ASCII_MARKS "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+" ends
#define LINES "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define HAN_KANA "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
/* Letters with case that deepseek-llm's list of them does not have. */
#define UNLISTED                                                                                                       \
    "[\u0560-\u0588\u10c7-\u10ff\u1c80-\u1c8f\u2d00-\u2d2d\ua790-\uab6f\U00010570-\U000105ff\U00010d40-\U00010d8f"     \
    "\U00016e40-\U00016eff\U0001d400-\U0001dfff]"
#define NOT_HAN(class) "(?:(?!\\p{Han})" class ")"
#define BLOOM " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"

/* names: separated by spaces, and with a space at both ends. patterns: each splits the words of those before it. */
static const struct {
    const char *names;
    const char *patterns[7]; /* the last is NULL */
    bool ignores_merges;
} named[] = {
    { " llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ", { CL100K("{1,3}") }, true },
    { " dbrx smaug-bpe chatglm-bpe glm4 ", { CL100K("{1,3}") }, false },
    { " qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 megrez hunyuan solar-open grok-2 ", { CL100K("") }, false },
    { " gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert mpt olmo jais exaone4 "
      "trillion "
      "granite-docling jina-v1-en jina-v2-code roberta-bpe ",
      { GPT2 },
      false },
    { " smollm starcoder refact command-r codeshell exaone minerva-7b mellum2 ", { "\\p{N}", GPT2 }, false },
    { " gpt-4o llama4 kanana2 talkie minimax-m2 ", { CASED("(?i:" ENGLISH ")?", "{1,3}") }, false },
    { " granite-embed-multi-97m ", { CASED("(?i:" ENGLISH ")?", "{1,3}") }, true },
    { " tekken ", { CASED("", "") }, true },
    { " tiny_aya cohere2moe ", { "\\d{1,3}(?=(?:\\d{3})*\\b)", CASED("(?i:" ENGLISH ")?", "{1,3}") }, false },
    { " qwen35 ",
      { "(?i:" ENGLISH ")|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+" LINES },
      false },
    { " minicpm5 ", { "\\p{N}{1,3}", "(?i:" ENGLISH ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+" ENDS }, true },
    { " ufakzeka ", { "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" ENDS }, false },
    { " seed-coder ",
      { "(?i:" ENGLISH
        ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" },
      false },
    { " bailingmoe bailingmoe2 llada-moe ",
      { "'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
        "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+" },
      false },
    { " exaone-moe ",
      { "(?i:" ENGLISH ")|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}"
        "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+" },
      false },
    { " jais-2 ",
      { "(?i:" ENGLISH ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
        "|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)"
        "|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}" },
      false },
    { " default ", { "[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]" }, false },
    { " falcon ", { "[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]" }, false },
    { " poro-chat bloom gpt3-finnish ", { BLOOM }, false },
    { " viking ", { BLOOM, "\\p{N}" }, false },
    { " deepseek-v3 hunyuan-dense joyai-llm hy_v4 ", { "\\p{N}{1,3}", HAN_KANA, DEEPSEEK(LINES) }, false },
    { " spark2_5 ", { "\\p{N}{1,3}", HAN_KANA, DEEPSEEK("|[\\r\\n]|\\s+(?!\\S)|\\s+"), "\\p{N}" }, false },
    { " afmoe ",
      { "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))",
        "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f"
        "\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+",
        DEEPSEEK(LINES) },
      false },
    { " youtu ",
      { "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-"
        "\u303f\ufe30-"
        "\ufe4f]+|[\u3105-\u312f]+|" HAN_KANA,
        CASED("(?i:" ENGLISH ")?", "") },
      true },
    { " deepseek-llm ",
      { "[\\r\\n]", "\\s?(?:(?!" UNLISTED ")[\\p{Lu}\\p{Ll}\\p{Lt}])+",
        "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", "\\s+$",
        "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", "\\p{N}+" },
      false },
    { " superbpe ", { "\\p{N}+", "(?=(\\d{3})+(?!\\d))" }, false },
    { " deepseek-coder ",
      { "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", "\\p{N}" },
      false },
    { " kimi-k2 ",
      { "\\p{Han}+|[^\\r\\n\\p{L}\\p{N}]?" NOT_HAN(UPPER) "*" NOT_HAN(
          LOWER) "+(?i:" ENGLISH ")?"
                 "|[^\\r\\n\\p{L}\\p{N}]?" NOT_HAN(UPPER) "+" NOT_HAN(LOWER) "*(?i:" ENGLISH ")?|\\p{N}{1,3}" ENDS },
      false },
    { " laguna ", { "[^\\n]+|[\\n]+", CL100K("") }, false },
    { " chameleon ",
      { "<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]", GPT2 },
      false },
};

const char *const *find_named_splitter(const char *name, bool *out_ignores_merges)
{
    char word[64];

    (void)snprintf(word, sizeof word, " %.60s ", name);
    for (size_t i = 0; i < sizeof named / sizeof *named && strchr(name, ' ') == NULL; i++) {
        if (strstr(named[i].names, word) == NULL)
            continue;
        *out_ignores_merges = named[i].ignores_merges;
        return named[i].patterns;
    }
    return NULL;
}
