// llama.cpp's parser of chat answers as its server puts it together: a request on each line, and an answer on each.
// `build_llama_chat_parser.py` builds it, `layout_judges.py` asks it.

#include "chat.h"
#include "json.h"
#include "log.h"

#include <fstream>
#include <iostream>
#include <sstream>

static common_json answer_to(const common_chat_templates * templates, const common_json & request) {
    common_chat_templates_inputs inputs;
    inputs.messages            = common_chat_msgs_parse_oaicompat(request.at("messages"));
    inputs.tools               = common_chat_tools_parse_oaicompat(request.at("tools"));
    inputs.tool_choice         = COMMON_CHAT_TOOL_CHOICE_AUTO;
    inputs.parallel_tool_calls = true;
    inputs.enable_thinking     = request.at("thinking").get<bool>();
    inputs.reasoning_format    = COMMON_REASONING_FORMAT_DEEPSEEK;

    common_json        answer = common_json::object();
    common_chat_params applied;
    try {
        applied = common_chat_templates_apply(templates, inputs);
    } catch (const std::exception & error) {
        answer["refused"] = std::string(error.what());
        return answer;
    }
    answer["prompt"] = applied.generation_prompt;
    if (!request.contains("text")) {
        return answer;
    }
    common_chat_parser_params params(applied);
    params.reasoning_format = inputs.reasoning_format;
    if (!applied.parser.empty()) {
        params.parser.load(applied.parser);
    }
    const auto  message = common_chat_parse(request.at("text").get<std::string>(), false, params);
    common_json calls   = common_json::array();
    for (const auto & call : message.tool_calls) {
        calls.push_back(common_json::array({ call.name, call.arguments }));
    }
    answer["calls"]     = calls;
    answer["reasoning"] = message.reasoning_content;
    answer["content"]   = message.content;
    return answer;
}

int main(int argc, char ** argv) {
    if (argc != 2) {
        std::cerr << "usage: " << argv[0] << " TEMPLATE.jinja < REQUESTS\n";
        return 2;
    }
    common_log_set_verbosity_thold(-1);
    std::ifstream      file(argv[1]);
    std::ostringstream source;
    source << file.rdbuf();
    const auto  templates = common_chat_templates_init(nullptr, source.str());
    std::string line;
    while (std::getline(std::cin, line)) {
        common_json answer;
        try {
            answer = answer_to(templates.get(), common_json::parse(line));
        } catch (const std::exception & error) {
            answer          = common_json::object();
            answer["error"] = std::string(error.what());
        }
        std::cout << answer.dump_safe() << std::endl;
    }
    return 0;
}
