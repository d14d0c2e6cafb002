"""A model made of rules: no weights, no network, the same words for the same question.

It stands in for a model in the demo and in tests and says so in every answer. It chooses among the
tools that a request offers by what they are called and described as, fills arguments from the
question by their schema, and tells what the tools returned.
"""
