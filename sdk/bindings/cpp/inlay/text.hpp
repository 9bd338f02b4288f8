// inlay/text.hpp - generates texts with language models from C++17: wraps text.h as inlay.hpp does inlay.h.
//
//     inlay::TextModel model("model.gguf");
//     inlay::Sampling how;
//     how.max_tokens = 20;
//     for (const std::string &piece : model.generate("The capital of France is", how))
//         std::cout << piece << std::flush;
//
// Header-only; link with libinlay-text. One thread at a time may use a model and its texts, except Text::stop(). A model
// must outlive its texts.
#ifndef INLAY_TEXT_HPP
#define INLAY_TEXT_HPP
#include "inlay/inlay.hpp"
#include "inlay/text.h"
#include <iterator>

namespace inlay
{

// How a text model is opened; empty texts and 0 stand for the default values of inlay_text_options.
struct TextModelOptions {
    std::string variant, tokenizer, draft;
    std::uint64_t kv_memory = 0;
    std::uint32_t max_texts = 0, draft_tokens = 0, lookup_tokens = 0, context = 0;
};

// How tokens are chosen, and where a text ends; as inlay_text_request. Negative numbers: those of the model.
struct Sampling {
    std::uint32_t max_tokens = 0;
    float temperature = -1, top_p = -1, min_p = -1, typical_p = -1, repetition_penalty = -1;
    std::uint32_t no_repeat_ngram_size = INLAY_NONE, min_tokens = INLAY_NONE; // INLAY_NONE: those of the model
    float presence_penalty = 0, frequency_penalty = 0;
    std::int32_t top_k = -1;
    std::uint64_t seed = 0;
    std::vector<std::string> stops;
    std::string schema, grammar, adapter; // empty: none
    bool ignore_ends = false, rendered = false;
};

struct Message {
    std::string role, content;
};

// A text in progress, and a range of its pieces, which are whole characters in UTF-8.
class Text
{
  public:
    // Reads pieces; one pass.
    class Iterator
    {
      public:
        using iterator_category = std::input_iterator_tag;
        using value_type = std::string;
        using difference_type = std::ptrdiff_t;
        using pointer = const std::string *;
        using reference = const std::string &;

        Iterator() = default;
        explicit Iterator(Text *text) : text_(text)
        {
            ++*this;
        }
        reference operator*() const noexcept
        {
            return piece_;
        }
        pointer operator->() const noexcept
        {
            return &piece_;
        }
        Iterator &operator++()
        {
            if (!text_->next(piece_))
                text_ = nullptr;
            return *this;
        }
        bool operator==(const Iterator &other) const noexcept
        {
            return text_ == other.text_;
        }
        bool operator!=(const Iterator &other) const noexcept
        {
            return text_ != other.text_;
        }

      private:
        Text *text_ = nullptr; // nullptr: the end
        std::string piece_;
    };

    Iterator begin()
    {
        return Iterator(this);
    }
    Iterator end()
    {
        return Iterator();
    }
    // Runs the model until there is a piece; false: the text has ended.
    bool next(std::string &piece)
    {
        for (;;) {
            const bool runs = info().state == INLAY_TEXT_RUNS;
            const char *data = nullptr;
            std::size_t bytes = 0;
            Diag diag;

            diag.check(inlay_text_take(text_.get(), &data, &bytes, diag));
            piece.assign(data, bytes);
            if (bytes > 0 || !runs)
                return bytes > 0;
            (void)inlay_text_model_step(model_);
        }
    }
    // The rest of the text.
    std::string text()
    {
        std::string whole, piece;

        while (next(piece))
            whole += piece;
        return whole;
    }
    void stop() const
    {
        inlay_text_stop(text_.get());
    } // with the next step; from any thread
    inlay_text_info info() const
    {
        inlay_text_info info = {};

        info.struct_size = sizeof info;
        Diag().check(inlay_text_describe(text_.get(), &info));
        return info;
    }
    inlay_text *get() const noexcept
    {
        return text_.get();
    }

  private:
    friend class TextModel;
    struct Destroy {
        void operator()(inlay_text *text) const noexcept
        {
            inlay_text_destroy(text);
        }
    };
    Text(inlay_text_model *model, inlay_text *text) : model_(model), text_(text)
    {
    }
    inlay_text_model *model_;
    std::unique_ptr<inlay_text, Destroy> text_;
};

class TextModel
{
  public:
    explicit TextModel(const std::string &path, const Options &options = Options(), const TextModelOptions &how = {})
    {
        inlay_text_options given = {};
        inlay_text_model *model = nullptr;
        Diag diag;

        given.struct_size = sizeof given;
        given.options = options.get();
        given.variant = or_null(how.variant);
        given.tokenizer = or_null(how.tokenizer);
        given.draft = or_null(how.draft);
        given.kv_memory = how.kv_memory;
        given.max_texts = how.max_texts;
        given.draft_tokens = how.draft_tokens;
        given.lookup_tokens = how.lookup_tokens;
        given.context = how.context;
        log_ = options.log();
        diag.check(inlay_text_model_create(path.c_str(), &given, &model, diag));
        model_.reset(model);
    }
    // Begins the continuation of a text, or of tokens. Several texts share runs, whichever of them is read.
    Text generate(const std::string &prompt, const Sampling &how = {})
    {
        return begin(&prompt, nullptr, how);
    }
    Text generate(const std::vector<std::int64_t> &tokens, const Sampling &how = {})
    {
        return begin(nullptr, &tokens, how);
    }
    // Begins the answer to the messages of a chat.
    Text chat(const std::vector<Message> &messages, Sampling how = {})
    {
        how.rendered = true;
        return generate(render(messages), how);
    }
    // The prompt of a chat, by the model's chat template.
    std::string render(const std::vector<Message> &messages)
    {
        std::vector<inlay_text_message> list;
        inlay_text_chat chat = {};

        for (const Message &message : messages)
            list.push_back({ message.role.c_str(), message.content.c_str() });
        chat.struct_size = sizeof chat;
        chat.messages = list.data();
        chat.message_count = list.size();
        return written([&](char *text, std::size_t bytes, std::size_t *size, inlay_diag *diag) {
            return inlay_text_model_chat(get(), &chat, text, bytes, size, diag);
        });
    }
    std::vector<std::int64_t> tokenize(const std::string &text, bool rendered = false) const
    {
        const std::uint32_t flags = rendered ? INLAY_TEXT_RENDERED : 0;
        std::vector<std::int64_t> tokens;
        std::size_t count = 0;
        Diag diag;

        diag.check(inlay_text_model_tokenize(get(), text.data(), text.size(), flags, nullptr, 0, &count, diag));
        tokens.resize(count);
        if (count > 0)
            diag.check(
                inlay_text_model_tokenize(get(), text.data(), text.size(), flags, tokens.data(), count, &count, diag));
        return tokens;
    }
    std::string detokenize(const std::vector<std::int64_t> &tokens) const
    {
        return written([&](char *text, std::size_t bytes, std::size_t *size, inlay_diag *diag) {
            return inlay_text_model_detokenize(get(), tokens.data(), tokens.size(), text, bytes, size, diag);
        });
    }
    std::vector<float> embed(const std::string &text)
    {
        const float *vector = nullptr;
        std::size_t size = 0;
        Diag diag;

        diag.check(inlay_text_model_embed(get(), text.data(), text.size(), &vector, &size, diag));
        return std::vector<float>(vector, vector + size);
    }
    // Facts, whose pointers belong to the model.
    inlay_text_model_info info() const
    {
        inlay_text_model_info info = {};

        info.struct_size = sizeof info;
        Diag().check(inlay_text_model_describe(get(), &info));
        return info;
    }
    inlay_text_model *get() const noexcept
    {
        return model_.get();
    }

  private:
    struct Destroy {
        void operator()(inlay_text_model *model) const noexcept
        {
            inlay_text_model_destroy(model);
        }
    };
    static const char *or_null(const std::string &text)
    {
        return text.empty() ? nullptr : text.c_str();
    }
    template <class Write> static std::string written(Write write)
    {
        std::size_t size = 0;
        std::string text;
        Diag diag;

        diag.check(write(nullptr, 0, &size, diag));
        text.resize(size);
        diag.check(write(&text[0], size, &size, diag));
        text.resize(size - 1); // without the NUL
        return text;
    }
    Text begin(const std::string *prompt, const std::vector<std::int64_t> *tokens, const Sampling &how)
    {
        inlay_text_request request = INLAY_TEXT_REQUEST_INIT;
        std::vector<const char *> stops;
        inlay_text *text = nullptr;
        Diag diag;

        for (const std::string &one : how.stops)
            stops.push_back(one.c_str());
        request.prompt = prompt != nullptr ? prompt->c_str() : nullptr;
        request.tokens = tokens != nullptr ? tokens->data() : nullptr;
        request.token_count = tokens != nullptr ? tokens->size() : 0;
        request.stops = stops.data();
        request.stop_count = static_cast<std::uint32_t>(stops.size());
        request.schema = or_null(how.schema);
        request.grammar = or_null(how.grammar);
        request.adapter = or_null(how.adapter);
        request.seed = how.seed;
        request.max_tokens = how.max_tokens;
        request.flags = (how.ignore_ends ? std::uint32_t{ INLAY_TEXT_IGNORE_ENDS } : 0u) |
                        (how.rendered ? std::uint32_t{ INLAY_TEXT_RENDERED } : 0u);
        request.top_k = how.top_k;
        request.temperature = how.temperature;
        request.top_p = how.top_p;
        request.min_p = how.min_p;
        request.typical_p = how.typical_p;
        request.no_repeat_ngram_size = how.no_repeat_ngram_size;
        request.min_tokens = how.min_tokens;
        request.repetition_penalty = how.repetition_penalty;
        request.presence_penalty = how.presence_penalty;
        request.frequency_penalty = how.frequency_penalty;
        diag.check(inlay_text_create(get(), &request, &text, diag));
        return Text(get(), text);
    }
    std::shared_ptr<void> log_; // what the session logs to
    std::unique_ptr<inlay_text_model, Destroy> model_;
};

} // namespace inlay
#endif
