// Streams of C++ read and write below stdio.
#include <fstream>
#include <iostream>
#include <string>

int main() {
    std::ofstream out("lines");
    for (int i = 0; i < 3000; i++)
        out << "line " << i << '\n';
    out.close();
    std::ifstream in("lines");
    std::string line;
    long count = 0;
    while (std::getline(in, line))
        count += line.size() + 1;
    std::cout << count << '\n';
}
