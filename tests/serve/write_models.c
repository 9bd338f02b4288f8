/* The models of models.c for scripts: write_models FOLDER. */
#include "client.h"

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    write_models(argv[1]);
    return 0;
}
