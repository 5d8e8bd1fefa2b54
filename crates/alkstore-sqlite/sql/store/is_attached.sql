-- Whether a connection has a function.
-- :name
SELECT EXISTS (
    SELECT 1
    FROM pragma_function_list
    WHERE name = :name
)
