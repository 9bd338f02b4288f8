/* The models of models.c for scripts:
 *     write_models FOLDER            those of write_models()
 *     write_models FOLDER texts      FOLDER/count/1/model.onnx and FOLDER/vectors/1/model.onnx
 *     write_models FOLDER decoders   FOLDER/counted.onnx and FOLDER/masked.onnx */
#include "client.h"
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
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
