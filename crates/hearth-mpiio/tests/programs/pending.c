/* Requests that are begun and ended all the time, while ranks have much to tell each other.
 *
 *     pending FILE
 */
#include "check.h"

enum { TURNS = 60, REQUESTS = 24, BLOCK = 20000 };

int main(int count, char **words)
{
    static unsigned char bytes[REQUESTS][BLOCK];
    MPI_Request requests[REQUESTS];
    MPI_File file;
    begin(&count, &words);
    MPI(MPI_File_open(MPI_COMM_WORLD, words[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    for (int turn = 0; turn < TURNS; turn++) {
        int part = (rank + turn) % ranks;
        for (int i = 0; i < REQUESTS; i++) {
            MPI_Offset at = ((MPI_Offset)i * ranks + part) * BLOCK;
            fill(bytes[i], part + i, turn, BLOCK);
            MPI(MPI_File_iwrite_at(file, at, bytes[i], BLOCK, MPI_BYTE, &requests[i]));
        }
        MPI(MPI_Waitall(REQUESTS, requests, MPI_STATUSES_IGNORE));
        MPI(MPI_File_sync(file));
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        part = (part + 1) % ranks;
        memset(bytes, 0, sizeof bytes);
        for (int i = 0; i < REQUESTS; i++) {
            MPI_Offset at = ((MPI_Offset)i * ranks + part) * BLOCK;
            MPI(MPI_File_iread_at(file, at, bytes[i], BLOCK, MPI_BYTE, &requests[i]));
        }
        MPI(MPI_Waitall(REQUESTS, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < REQUESTS; i++)
            expect(bytes[i], part + i, turn, BLOCK);
        MPI(MPI_Barrier(MPI_COMM_WORLD));
    }
    MPI(MPI_File_close(&file));
    MPI(MPI_Finalize());
    return 0;
}
