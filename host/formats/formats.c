#include "formats/gguf.h"
#include "model/format.h"

static const model_format formats[] = {
    { "GGUF", gguf_is_file, gguf_translate, gguf_read_adapter },
};

const model_format *model_format_of(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].is_file(bytes, count))
            return &formats[i];
    return NULL;
}
