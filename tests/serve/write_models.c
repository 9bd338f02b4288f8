/* The models of models.c for scripts:
 *     write_models FOLDER            those of write_models()
 *     write_models FOLDER texts      FOLDER/count/1/model.onnx and FOLDER/vectors/1/model.onnx
 *     write_models FOLDER decoders   FOLDER/counted.onnx, masked.onnx, and hidden.onnx and tanh.onnx, whose heads are
 *                                    eagle.onnx and shared.onnx; layers.onnx with the head eagle3.onnx */
#include "client.h"
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*write)(const char *path);
    } more[] = {
        { "hidden", write_hidden_decoder }, { "eagle", write_eagle_head },      { "tanh", write_tanh_decoder },
        { "shared", write_shared_head },    { "layers", write_layers_decoder }, { "eagle3", write_eagle3_head }
    };
    char path[512];

    if (argc == 2) {
        write_models(argv[1]);
        return 0;
    }
    if (argc == 3 && strcmp(argv[2], "decoders") == 0) {
        (void)snprintf(path, sizeof path, "%s/counted.onnx", argv[1]);
        write_counted_decoder(path);
        (void)snprintf(path, sizeof path, "%s/masked.onnx", argv[1]);
        write_masked_decoder(path);
        for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
            (void)snprintf(path, sizeof path, "%s/%s.onnx", argv[1], more[i].name);
            more[i].write(path);
        }
        return 0;
    }
    if (argc != 3 || strcmp(argv[2], "texts") != 0)
        return 2;
    (void)snprintf(path, sizeof path, "%s/count/1/model.onnx", argv[1]);
    write_counting(path);
    (void)snprintf(path, sizeof path, "%s/vectors/1/model.onnx", argv[1]);
    write_vectors(path);
    return 0;
}
