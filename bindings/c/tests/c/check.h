/* Assertions of tests. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* If the condition is false, prints where and errno, and ends the program. */
#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s (errno %d: %s)\n", __FILE__, __LINE__, #condition, \
                    errno, strerror(errno));                                              \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

#endif
